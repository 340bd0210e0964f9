// Routes in which experts choose their rows.
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "graph/ir/graph.h"
#include "ops/route/route.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace expert_choice_test {
namespace {

namespace mt = metronome;
using namespace metronome;

at::Tensor matrix(std::vector<double> numbers, std::int64_t columns) {
  return at::tensor(numbers, at::TensorOptions(at::kDouble)).reshape({-1, columns});
}

/// Numbers between -1 and 1 that look random and are the same on every machine.
at::Tensor numbers(std::int64_t rows, std::int64_t columns, double seed) {
  const auto steps = at::arange(rows * columns, at::TensorOptions(at::kDouble));
  return at::sin(steps * 12.9898 + seed).reshape({rows, columns});
}

/// A router that gives an input as it is.
Layer given(Value weights) {
  return [weights](Value) { return weights; };
}

/// Expert e multiplies by 10 to the power e.
Layer power_of_ten(int e) {
  return [e](Value h) { return h * std::pow(10.0, e); };
}

Executable compiled(const Graph& graph, const Target& target = cpu_replay()) {
  CompileOptions options;
  options.threads = 1;
  options.tune = Tune::off;
  return compile(graph, target, options);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

bool routes_rows(const Graph& g) {
  return std::ranges::any_of(g.data().nodes(),
                             [](const Node& n) { return n.op->as<Route>() != nullptr; });
}

TEST_CASE("experts that choose take the rows that weigh most, of equal ones the first") {
  Graph g("chosen");
  const Value x = g.input("x", f64, {4, 1}), w = g.input("w", f64, {4, 3});
  // ceil(1 * 4 * 1 / 3) = 2 slots each.
  const Value y = x.route(given(w), power_of_ten, {.capacity = 1, .chooser = Chooser::expert});
  const Value lost = dropped(y);
  g.output("y", y), g.output("lost", lost);
  CHECK(lost.type() == Type{i64, {}});
  CHECK_FALSE(routes_rows(g));
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compiled(g, target);
    // Expert 0 takes rows 2 and 0, expert 1 rows 1 and 2, expert 2 rows 2 and 0.
    step.run({{x, matrix({1, 2, 3, 4}, 1)},
              {w, matrix({0.5, 0.1, 0.4,  //
                          0.1, 0.8, 0.1,  //
                          0.6, 0.7, 0.9,  //
                          0.5, 0.2, 0.3},
                         3)}});
    CHECK(distance(step.read(y), matrix({40.5, 16, 292.8, 0}, 1)) <= 1e-12);
    CHECK(step.read_scalar(lost) == 1);
    // All weigh the same: each expert takes rows 0 and 1.
    step.run({{x, matrix({1, 2, 3, 4}, 1)}, {w, at::ones({4, 3}, at::kDouble)}});
    CHECK(distance(step.read(y), matrix({111, 222, 0, 0}, 1)) <= 1e-12);
    CHECK(step.read_scalar(lost) == 2);
  }
}

TEST_CASE("where experts choose, values and gradients are those of libtorch's topk and index_add") {
  Graph g("chosen");
  const Value x = g.parameter("x", {f64, {10, 3}}, zeros()),
              w = g.parameter("w", {f64, {10, 4}}, zeros());
  const auto expert = [](int e) -> Layer {
    return [e](Value h) { return metronome::tanh(h * (e + 1.0)).reshape({-1, 1, 3}); };
  };
  const Value y = x.route([&](Value) { return metronome::softmax(w, 1); }, expert,
                          {.top = 2, .capacity = 1, .chooser = Chooser::expert});
  CHECK(y.type() == Type{f64, {10, 1, 3}});
  g.output("y", y);
  const Value weights = g.input("weights", f64, {10, 1, 3});
  g.minimize(sum(y * weights), Sgd{.lr = 1});  // a step subtracts the gradient

  const at::Tensor x0 = numbers(10, 3, 0), w0 = numbers(10, 4, 1), by = numbers(10, 3, 2);
  const at::Tensor xt = x0.clone().requires_grad_(true), wt = w0.clone().requires_grad_(true);
  at::Tensor expected = at::zeros({10, 3}, at::kDouble);
  const auto [value, row] = at::softmax(wt, 1).topk(5, 0);
  for (int e = 0; e < 4; ++e) {
    const at::Tensor taken = row.select(1, e),
                     made = at::tanh(xt.index_select(0, taken) * (e + 1.0));
    expected = expected.index_add(0, taken, made * value.select(1, e).unsqueeze(1));
  }
  (expected * by).sum().backward();
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compiled(g, target);
    step.set("x", x0), step.set("w", w0);
    step.run({{weights, by.reshape({10, 1, 3})}});
    CHECK(distance(step.read(y), expected.reshape({10, 1, 3})) <= 1e-12);
    CHECK(distance(x0 - step.get("x"), xt.grad()) <= 1e-12);
    CHECK(distance(w0 - step.get("w"), wt.grad()) <= 1e-12);
  }
}

TEST_CASE("with room for all rows it is the dense mixture, whoever chooses") {
  const RouteOptions everyone{.top = 4, .capacity = 1, .chooser = Chooser::expert};
  Graph g("dense");
  const Value x = g.input("x", f64, {6, 3}), w = g.input("w", f64, {6, 4});
  const Value none = g.input("none", f64, {0, 3}), no_weight = g.input("no_weight", f64, {0, 4});
  const Value routed = x.route(given(w), power_of_ten, everyone);
  const Value gated = x.gate(given(w), power_of_ten);
  const Value empty = none.route(given(no_weight), power_of_ten, everyone), lost = dropped(empty);
  g.output("routed", routed), g.output("gated", gated), g.output("empty", empty);
  g.output("lost", lost);
  Executable step = compiled(g);
  step.run({{x, numbers(6, 3, 0)},
            {w, numbers(6, 4, 1)},
            {none, at::zeros({0, 3}, at::kDouble)},
            {no_weight, at::zeros({0, 4}, at::kDouble)}});
  CHECK(distance(step.read(routed), step.read(gated)) <= 1e-11);
  CHECK(empty.type() == Type{f64, {0, 3}});
  CHECK(step.read_scalar(lost) == 0);
}

}  // namespace

}  // namespace expert_choice_test
