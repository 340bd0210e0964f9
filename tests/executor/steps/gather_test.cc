// The gradient of a weight that many steps share: one product over all steps, in place of one a
// step.
#include <algorithm>
#include <string>

#include "executor/compile/make_plan.h"
#include "executor/engine/plan.h"
#include "executor/metronome.h"
#include "ops/concat/concat.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "tests/doctest.h"
#include "tests/executor/settings_of.h"
#include "tests/executor/targets.h"

namespace metronome::gather_test {
namespace {

using tests::OnEveryTarget;

constexpr int kSteps = 6;

void gathers_not(Settings& settings) { settings.gathers = false; }

ir::Graph planned(const Graph& graph, const Target& target) {
  const auto backend = opened(target, {.threads = 1});
  Report report;
  return executor::compile::make_plan({graph}, settings_of(target, Mode::train), backend->kernels(),
                                      {.tune = Tune::off}, report)
      .graph;
}

template <class T>
int count(const ir::Graph& graph) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes(), [](const Node& node) { return node.op->as<T>() != nullptr; }));
}

/// Sums of whole rows, which the gradients of biases are.
int row_sums(const ir::Graph& graph) {
  return static_cast<int>(std::ranges::count_if(graph.nodes(), [](const Node& node) {
    const Reduce* sum = node.op->as<Reduce>();
    return sum != nullptr && sum->kind == Reduce::Kind::sum &&
           sum->axes == std::vector<std::int64_t>{0};
  }));
}

// x - linear - tanh - ... - y, six times with one set of weights
struct Looped {
  explicit Looped(std::int64_t rows = 5, bool data = false) : rows(rows) {
    const auto body = [](Value h) { return metronome::tanh(h.through(linear(4))); };
    const Value y = data ? x.loop(body).until([&](Value h) { return mean(h) > level; }, kSteps)
                         : x.loop(body).times(kSteps);
    graph.output("y", y);
    graph.minimize(mean(square(y - 0.5)), Adam{.lr = 1e-2});
  }
  std::int64_t rows;
  Graph graph{"looped"};
  Value x = graph.input("x", f64, {rows, 4});
  Value level = graph.input("level", f64, {});

  void run(OnEveryTarget& all) const {
    for (int step = 0; step < 4; ++step) {
      const auto numbers = at::arange(rows * 4, at::TensorOptions(at::kDouble));
      all.run({{x, at::sin(numbers + step).reshape({rows, 4})},
               {level, at::full({}, 0.05 * step, at::TensorOptions(at::kDouble))}});
    }
  }
};

TEST_CASE("the gradients of all steps are one product and one sum over rows side by side") {
  const Looped model;
  const ir::Graph apart = planned(model.graph, changed<cpu_replay, gathers_not>());
  const ir::Graph together = planned(model.graph, cpu_replay());
  // Each step has the gradient of its weight and, but for the first, that of its input.
  CHECK(count<Matmul>(apart) == 2 * kSteps - 1);
  CHECK(count<Matmul>(together) == kSteps);
  CHECK(row_sums(apart) == kSteps);
  CHECK(row_sums(together) == 1);
  // The rows of both operands; the sum takes the product's.
  CHECK(count<Concat>(together) == 2);
}

TEST_CASE("gathered gradients train as those of each step do, on every target") {
  const Looped model;
  OnEveryTarget all(model.graph);
  model.run(all);
  Executable apart =
      compile(model.graph, changed<cpu_replay, gathers_not>(), tests::plain_options());
  Executable together = compile(model.graph, cpu_replay(), tests::plain_options());
  for (int step = 0; step < 4; ++step) {
    const auto numbers = at::arange(20, at::TensorOptions(at::kDouble));
    for (Executable* e : {&apart, &together}) {
      e->run({{"x", at::sin(numbers + step).reshape({5, 4})},
              {"level", at::zeros({}, at::TensorOptions(at::kDouble))}});
    }
  }
  for (const std::string& path : apart.storages()) {
    CAPTURE(path);
    CHECK(at::allclose(apart.get(path), together.get(path), 1e-12, 1e-14));
  }
}

TEST_CASE("what a step may skip, and what is bound by its arithmetic, is left as it is") {
  const Looped skipped(5, true), many(100000);
  const auto same = [](const Graph& graph) {
    return planned(graph, cpu_replay()).print() ==
           planned(graph, changed<cpu_replay, gathers_not>()).print();
  };
  CHECK(same(many.graph));
  OnEveryTarget all(skipped.graph);
  skipped.run(all);
}

TEST_CASE("products whose result is much larger than their operands are gathered some at a time") {
  constexpr std::int64_t kRows = 128, kWidth = 600, kTimes = 20;
  Graph graph("wide");
  const Value x = graph.input("x", f32, {kRows, kWidth});
  const Layer layer = shared(linear(kWidth, {.bias = false}));
  Value y = x;
  for (int i = 0; i < kTimes; ++i) y = tanh(y.through(layer));
  graph.minimize(mean(square(y - 0.5)), Sgd{.lr = 1e-2});
  const ir::Graph together = planned(graph, cpu_replay());
  const auto products = std::ranges::count_if(together.nodes(), [](const Node& node) {
    const Matmul* product = node.op->as<Matmul>();
    return product != nullptr && product->transpose_a;
  });
  CHECK(products == 3);  // of 8, 8 and 4 steps

  const std::string weight = "shared/linear/weight";
  const CompileOptions plain = tests::plain_options();
  Executable gathered = compile(graph, cpu_replay(), plain);
  Executable apart = compile(graph, changed<cpu_replay, gathers_not>(), plain);
  const auto numbers = at::arange(kRows * kWidth, at::TensorOptions(at::kFloat));
  for (Executable* e : {&gathered, &apart}) {
    e->run({{"x", at::sin(numbers).reshape({kRows, kWidth})}});
  }
  CHECK(at::allclose(gathered.get(weight), apart.get(weight), 1e-5, 1e-7));
}

TEST_CASE("the gradients of recurrent layers and their readers are the same gathered") {
  Graph graph("recurrent");
  const Value x = graph.input("x", f64, {7, 3, 4});
  const Value lengths = graph.input("lengths", i64, {3});  // so that no scan runs all steps
  const Recurrent read = gru(5)(x, {.lengths = lengths});
  graph.output("h", read.output);
  graph.minimize(mean(square(read.output)), Adam{.lr = 1e-2, .clip_norm = 0.1});
  CHECK(count<Matmul>(planned(graph, cpu_replay())) <
        count<Matmul>(planned(graph, changed<cpu_replay, gathers_not>())) - 4);
  OnEveryTarget all(graph);
  for (int step = 0; step < 3; ++step) {
    const auto numbers = at::arange(84, at::TensorOptions(at::kDouble));
    all.run({{x, at::sin(numbers + step).reshape({7, 3, 4})},
             {lengths, at::tensor(std::vector<std::int64_t>{7, 5, 6})}});
  }
}

}  // namespace
}  // namespace metronome::gather_test
