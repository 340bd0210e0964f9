// Numbers that are not finite: who made them, by every executor in the same words
// (CompileOptions::watch).
#include <functional>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/told.h"

namespace metronome::tests::watch_test {
namespace {

/// y = layer(x) of x [4], and a loss that trains a scale.
struct Watched {
  Graph g{"watched"};
  Value x = g.input("x", f64, {4});
  explicit Watched(const std::function<Value(Graph&, Value)>& layer) {
    const LineScope scope(&g.emitter(), kHere);
    const Value scale = g.parameter("scale", {f64, {}}, constant(1.0));
    g.minimize(mean(square(layer(g, x) * scale)), Sgd{.lr = 0.0});
  }
  Feeds step(double number) const { return {{x, at::full({4}, number, at::kDouble)}}; }
};

TEST_CASE("off, nothing is told of numbers that are not finite") {
  const Watched w([](Graph&, Value x) { return log(x); });
  CHECK(told(w.g, {w.step(-1)}) == "nothing");
  CHECK(told_by_eager(w.g, {w.step(-1)}) == "nothing");
}

TEST_CASE("the node that makes a NaN or an infinity is told of, not those that read it") {
  const Watched w([](Graph&, Value x) {
    const Value left = tanh(log(x) * 2.0);  // before exp, whatever the compiler does first
    return left + exp(x);
  });
  CHECK(told(w.g, {w.step(1)}, true) == "nothing");
  for (const auto& [number, text] :
       {std::pair(-1.0, "log \"log\" (train.cc:12): made a NaN"),
        std::pair(0.0, "log \"log\" (train.cc:12): made an infinity"),
        std::pair(1000.0, "exp \"exp\" (train.cc:12): made an infinity"),
        std::pair(kNaN, "log \"log\" (train.cc:12): read a NaN from input \"x\"")}) {
    CAPTURE(number);
    // Later steps are full of NaN: the first one is told of.
    CHECK(told(w.g, {w.step(1), w.step(number), w.step(-1)}, true) == text);
    CHECK(told_by_eager(w.g, {w.step(1), w.step(number), w.step(-1)}, true) == text);
  }
}

TEST_CASE("masks of infinities pass, wherever they come from") {
  const at::Tensor mask = vector_of({0, -kInfinity, 0, -kInfinity});
  const auto attention = [](Value x, Value masked) { return softmax(x + masked) * x; };
  const Watched by_constant([&](Graph& g, Value x) {
    return attention(x, g.constant({0, -kInfinity, 0, -kInfinity}, {f64, {4}}));
  });
  CHECK(told(by_constant.g, {by_constant.step(1), by_constant.step(2)}, true) == "nothing");
  CHECK(told_by_eager(by_constant.g, {by_constant.step(1)}, true) == "nothing");

  const Watched by_where([&](Graph&, Value x) { return softmax(where(x > 1.0, x, -kInfinity)); });
  const Feeds some = {{by_where.x, vector_of({0, 2, 0, 3})}};
  CHECK(told(by_where.g, {some}, true) == "nothing");
  CHECK(told_by_eager(by_where.g, {some}, true) == "nothing");
  CHECK(told(by_where.g, {some, by_where.step(0)}, true) ==
        "softmax {axis=-1} \"softmax\" (train.cc:12): made a NaN");

  Value input;
  const Watched by_input([&](Graph& g, Value x) {
    input = g.input("mask", f64, {4});
    return attention(x, input);
  });
  const Feeds fed = {by_input.step(1)[0], {input, mask}};
  CHECK(told(by_input.g, {fed, by_input.step(2)}, true) == "nothing");
  CHECK(told_by_eager(by_input.g, {fed, by_input.step(2)}, true) == "nothing");
  // Fed without infinities, it excuses none.
  const Feeds finite = {by_input.step(1e308)[0], {input, at::full({4}, 1e308, at::kDouble)}};
  CHECK(told(by_input.g, {fed, finite}, true) == "add \"add\" (train.cc:12): made an infinity");

  const Watched by_state([&](Graph& g, Value x) {
    const Value most = g.state("most", {f64, {4}}, constant(-kInfinity));
    g.feed(most, maximum(most, x));
    return x + exp(most);
  });
  CHECK(told(by_state.g, {by_state.step(1), by_state.step(2)}, true) == "nothing");
  // Once the state is finite it excuses no infinity.
  CHECK(told(by_state.g, {by_state.step(1), by_state.step(1000), by_state.step(1)}, true) ==
        "exp \"exp\" (train.cc:12): made an infinity");
}

TEST_CASE("a product that a library computes is looked at too") {
  Graph g("product");
  const Value x = g.input("x", f64, {4, 6});
  g.minimize(mean(tanh(x.through(linear(5, {.bias = false}), kHere))), Sgd{.lr = 0.0});
  const auto step = [&](double number) {
    return Feeds{{x, at::full({4, 6}, number, at::TensorOptions(at::kDouble))}};
  };
  std::vector<Executable> all = on_planned_targets(g, true);
  for (Executable& e : all) {
    e.set("linear/weight", at::full({5, 6}, 1e10, at::TensorOptions(at::kDouble)));
    e.run(step(1));
    CHECK(e.fault().value_or("nothing") == "nothing");
    e.run(step(1e308));
    CHECK(e.fault().value_or("nothing") == "linear \"linear\" (train.cc:12): made an infinity");
  }
  for (Executable& e : on_planned_targets(g, true)) {
    at::Tensor broken = at::ones({5, 6}, at::TensorOptions(at::kDouble));
    broken[2][3] = kNaN;
    e.set("linear/weight", broken);
    e.run(step(1));
    CHECK(e.fault().value_or("nothing") ==
          "linear \"linear\" (train.cc:12): read a NaN from \"linear/weight\"");
  }
}

TEST_CASE("what a region makes is told of where it runs, and not where it is skipped") {
  Graph g("region");
  const Value x = g.input("x", f64, {4}), which = g.input("which", i32, {});
  const Layer bad = [](Value h) {
    const LineScope scope(h.emitter(), kHere);
    return log(h);
  };
  g.output("y", x.choose(which, {bad, tanh}));
  const auto step = [&](int selector) {
    return Feeds{{x, at::full({4}, -1.0, at::kDouble)},
                 {which, at::full({}, selector, at::TensorOptions(at::kInt))}};
  };
  CHECK(told(g, {step(1), step(1)}, true) == "nothing");
  const std::string text = "log \"choose/0/log\" (train.cc:12): made a NaN";
  CHECK(told(g, {step(1), step(0)}, true) == text);
  CHECK(told_by_eager(g, {step(1), step(0)}, true) == text);
}

TEST_CASE("a gradient that is not finite is told of") {
  Graph g("gradient");
  const LineScope scope(&g.emitter(), kHere);
  const Value p = g.parameter("p", {f64, {4}}, constant(0.0));
  g.minimize(sum(sqrt(p)), Sgd{.lr = 1.0});
  const std::string text = told(g, {{}}, true);
  CHECK(text == "sqrt_grad \"sqrt.grad/sqrt_grad/sqrt_grad\" (train.cc:12): made an infinity");
  CHECK(told_by_eager(g, {{}}, true) == "gradient of \"p\" (train.cc:12): made an infinity");
}

}  // namespace
}  // namespace metronome::tests::watch_test
