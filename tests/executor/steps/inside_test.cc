// Values inside others: what is concatenated, and gradients side by side, are made in their place.
#include <string>
#include <utility>
#include <vector>

#include "executor/compile/make_plan.h"
#include "executor/engine/plan.h"
#include "executor/metronome.h"
#include "graph/ir/structural.h"
#include "ops/concat/concat.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/settings_of.h"

namespace inside_test {
namespace {

using namespace metronome;

void packs(Settings& settings) { settings.packs_gradients = true; }
Target plain_stepwise() { return stepwise(); }

executor::Plan planned(const Graph& graph, const Target& target) {
  const auto backend = opened(target, {.threads = 1});
  Report report;
  const Settings settings = settings_of(target, Mode::train);
  return executor::compile::make_plan({graph}, settings, backend->kernels(), {.tune = Tune::off},
                                      report);
}

/// How many operands of nodes of an op lie where the op would copy them to, and how many do not.
template <class T>
std::pair<int, int> inside_and_copied(const executor::Plan& plan) {
  int inside = 0, copied = 0;
  for (std::size_t index = 0; index < plan.graph.nodes().size(); ++index) {
    const Node& node = plan.graph.nodes()[index];
    const T* op = node.op->as<T>();
    if (op == nullptr) continue;
    const Types types = plan.graph.operands(node);
    for (const Inside& part : op->inside(types)) {
      plan::Place place = plan.memory.places[index][0];
      place.offset += part.offset;
      const ValueId operand = node.inputs[part.input];
      (plan.memory.places[operand.node][operand.output] == place ? inside : copied) += 1;
    }
  }
  return {inside, copied};
}

// x - linear - gelu ----+
// x - linear - (gelu) --+- concat along time - linear - y
// x --------------------+
struct Times {
  /// The gradient of `last` may read its result.
  explicit Times(const Layer& last = gelu) {
    const Value a = x.through(linear(32)).through(gelu);
    const Value b = x.through(linear(32)).through(last);
    y = concat({a, b, x}, 0).through(linear(8));
    graph.output("y", y);
    graph.minimize(mean(square(y)), Adam{.lr = 1e-2});
  }
  Graph graph{"times"};
  Value x = graph.input("x", f32, {16, 32});
  Value y;
};

void check_equal(const Executable& a, const Executable& b) {
  REQUIRE(a.storages() == b.storages());
  for (const std::string& path : a.storages()) {
    CAPTURE(path);
    CHECK(at::equal(a.get(path), b.get(path)));
  }
}

TEST_CASE("what is made for a concat is made in its place; only what is fed is copied") {
  const Times model;
  CHECK(inside_and_copied<Concat>(planned(model.graph, cpu_replay())) == std::pair{2, 1});

  Executable replay = compile(model.graph, cpu_replay());
  Executable walk = compile(model.graph, stepwise());
  Executable libtorch = compile(model.graph, eager());
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = at::sin(at::arange(512) + step).reshape({16, 32}).to(at::kFloat);
    for (Executable* e : {&replay, &walk, &libtorch}) e->run({{"x", x}});
    CHECK(at::equal(replay.read("y"), walk.read("y")));
    CHECK(at::allclose(replay.read("y"), libtorch.read("y"), 1e-4, 1e-5));
  }
  check_equal(replay, walk);
}

TEST_CASE("a part that is read for longer than its whole is copied, if that takes fewer bytes") {
  const Times model(metronome::tanh);
  CHECK(inside_and_copied<Concat>(planned(model.graph, cpu_replay())) == std::pair{0, 3});
}

// Gradients of equal and of odd sizes, of a weight that is used twice, and of one that is skipped.
struct Several {
  Several() {
    const Layer twice = shared(linear(24));
    Value h =
        x.through(linear(24)).through(gelu).through(twice).through(metronome::tanh).through(twice);
    h = h.choose(which,
                 {[](Value v) { return v.through(linear(24)); }, [](Value v) { return v * 0.5; }});
    y = h.through(layer_norm()).through(linear(3));
    graph.output("y", y);
    graph.minimize(mean(square(y)), Adam{.lr = 1e-2});
  }
  Graph graph{"several"};
  Value x = graph.input("x", f32, {16, 32});
  Value which = graph.input("which", i32, {});
  Value y;
};

TEST_CASE("the gradients of all parameters lie side by side, and none is copied there") {
  const Several model;
  const executor::Plan plan = planned(model.graph, changed<cpu_replay, packs>());
  const auto [inside, copied] = inside_and_copied<Pack>(plan);
  CHECK(inside == 10);
  CHECK(copied == 0);
}

TEST_CASE("a step with packed gradients leaves the bits of one without") {
  const Several model;
  Executable packed = compile(model.graph, changed<cpu_replay, packs>(), {.tune = Tune::off});
  Executable walk = compile(model.graph, changed<plain_stepwise, packs>(), {.tune = Tune::off});
  Executable apart = compile(model.graph, cpu_replay(), {.tune = Tune::off});
  for (int step = 0; step < 4; ++step) {
    const at::Tensor x = at::sin(at::arange(512) + step).reshape({16, 32}).to(at::kFloat);
    const at::Tensor which = at::scalar_tensor(step % 2, at::TensorOptions(at::kInt));
    for (Executable* e : {&packed, &walk, &apart}) e->run({{"x", x}, {"which", which}});
  }
  check_equal(packed, walk);
  check_equal(packed, apart);
}

}  // namespace

}  // namespace inside_test
