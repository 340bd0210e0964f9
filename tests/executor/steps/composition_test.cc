// Verbs that shape a model, by their numbers: one model written in two ways gives the same steps.
#include <ATen/ops/maximum.h>

#include <algorithm>

#include "graph/ir/graph.h"
#include "tests/executor/targets.h"

namespace metronome::composition_test {
namespace {

using tests::OnEveryTarget;
using tests::plain_options;

/// The layer without its mark.
Layer unmarked(Layer layer) {
  return [layer = std::move(layer)](Value x, Line line) { return layer(x, line); };
}

at::Tensor numbers(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::linspace(-1.5, 2, count, at::kDouble).sin().reshape(shape);
}

/// A model of one input x, and how it is written.
using Written = std::function<Value(Value x)>;

Graph trained(const Written& model, const Shape& shape) {
  Graph g("g");
  const Value y = model(g.input("x", f64, shape));
  g.output("y", y);
  g.minimize(mean(square(y - 0.3)), Adam{.lr = 1e-2});
  return g;
}

/// Three steps of both on every target: the same outputs and storages, within rounding.
void check_same(const Written& one, const Written& other, const Shape& shape) {
  const Graph a = trained(one, shape), b = trained(other, shape);
  OnEveryTarget first(a);
  Executable second = compile(b, cpu_replay(), plain_options());
  CHECK(first.replay().storages() == second.storages());
  for (int step = 0; step < 3; ++step) {
    for (Executable& e : first.executables) e.run({{"x", numbers(shape)}});
    first.check_storages();
    second.run({{"x", numbers(shape)}});
    CHECK(at::allclose(first.replay().read("y"), second.read("y"), 1e-12, 1e-12));
  }
  for (const std::string& path : second.storages()) {
    CAPTURE(path);
    CHECK(at::allclose(first.replay().get(path), second.get(path), 1e-12, 1e-12));
  }
}

const Layer kRowwise = rowwise([](Value x) {
  return x.through(layer_norm()).through(residual(linear(6))).through(gelu).through(linear(2));
});

TEST_CASE("each: rowwise layers run once, and give what a call for each row gives") {
  for (const Shape& shape : {Shape{4, 6}, Shape{3, 2, 6}}) {
    check_same([](Value x) { return x.each(kRowwise); },
               [](Value x) { return x.each(unmarked(kRowwise)); }, shape);
  }
}

TEST_CASE("slices: rowwise layers run once, and give what a call for each slice gives") {
  for (const Shape& shape : {Shape{4, 12}, Shape{12}, Shape{2, 3, 6}}) {
    const std::int64_t n = shape.back() == 12 ? 2 : 1;
    check_same([n](Value x) { return x.slices(n, kRowwise); },
               [n](Value x) { return x.slices(n, unmarked(kRowwise)); }, shape);
  }
}

TEST_CASE("each and slices of layers that are not rowwise") {
  Graph g("g");
  const Value x = g.input("x", f64, {2, 3, 4});
  g.output("sums", x.each([](Value m) { return sum(m); }));
  g.output("turned", x.each([](Value m) { return m.transpose(0, 1); }));
  g.output("tops", x.slices(2, [](Value s) { return max(s, -1, true); }));
  Executable step = compile(g, cpu_replay(), plain_options());
  const at::Tensor in = numbers({2, 3, 4});
  step.run({{x, in}});
  CHECK(at::allclose(step.read("sums"), in.sum({1, 2}), 1e-14, 1e-14));
  CHECK(at::equal(step.read("turned"), in.transpose(1, 2)));
  CHECK(at::equal(step.read("tops"), in.reshape({2, 3, 2, 2}).amax(-1)));
}

TEST_CASE("each row's dropout draws a mask of its own") {
  Graph g("g");
  const Value x = g.input("x", f64, {2, 64});
  g.output("y", x.each(dropout(0.5)));
  Executable step = compile(g, cpu_replay(), plain_options());
  step.run({{x, at::ones({2, 64}, at::kDouble)}});
  CHECK_FALSE(at::equal(step.read("y")[0], step.read("y")[1]));
}

TEST_CASE("a batch norm in each threads its statistics from row to row") {
  Graph g("g");
  const Value x = g.input("x", f64, {2, 5, 3});
  g.minimize(mean(square(x.each(batch_norm()) - 1.0)), Sgd{.lr = 0.1});
  OnEveryTarget runs(g);
  const at::Tensor in = numbers({2, 5, 3});
  runs.run({{x, in}});
  // 0 at first; each row takes over a tenth of its own mean.
  const at::Tensor mean = (in[0].mean(0) * 0.1) * 0.9 + in[1].mean(0) * 0.1;
  CHECK(at::allclose(runs.replay().get("each/batch_norm/running_mean"), mean, 1e-14, 1e-14));
}

TEST_CASE("split and merge by sum, mean, product, concat and a callable") {
  Graph g("g");
  const Value x = g.input("x", f64, {2, 3});
  const auto branches = [&] {
    return x.split([](Value h) { return h + 1.0; }, [](Value h) { return 2.0 * h; }, square);
  };
  g.output("sum", branches().merge(sum));
  g.output("mean", branches().merge(mean));
  g.output("product", branches().merge(product));
  g.output("largest", branches().merge(max));
  g.output("concat", branches().merge(concat(1)));
  g.output("own", branches().merge([](const Values& b) { return b[0] - b[1] * b[2]; }));
  Executable step = compile(g, cpu_replay(), plain_options());
  const at::Tensor in = numbers({2, 3}), a = in + 1, b = 2 * in, c = in * in;
  step.run({{x, in}});
  const auto check = [&](const char* name, const at::Tensor& expected) {
    CAPTURE(name);
    CHECK(at::allclose(step.read(name), expected, 1e-14, 1e-14));
  };
  check("sum", a + b + c);
  check("mean", (a + b + c) / 3);
  check("product", a * b * c);
  check("largest", at::maximum(at::maximum(a, b), c));
  check("concat", at::cat({a, b, c}, 1));
  check("own", a - b * c);
}

TEST_CASE("also: x + layer(x), and skip(x) + main(x)") {
  Graph g("g");
  const Value x = g.input("x", f64, {2, 3});
  const auto twice = [](Value h) { return 2.0 * h; };
  g.output("one", x.also(square));
  g.output("two", x.also(square, twice));
  Executable step = compile(g, cpu_replay(), plain_options());
  const at::Tensor in = numbers({2, 3});
  step.run({{x, in}});
  CHECK(at::equal(step.read("one"), in + in * in));
  CHECK(at::equal(step.read("two"), 2 * in + in * in));
}

TEST_CASE("gate: every expert runs; the router weighs them row by row") {
  Graph g("g");
  const Value x = g.input("x", f64, {4, 3});
  const Value router = g.parameter("router", {f64, {4, 2}}, normal());
  const Layer weigh = [&](Value) { return router.through(softmax()); };
  g.output("listed", x.gate(weigh, {square, [](Value h) { return 2.0 * h; }}));
  const Layers experts([](int i) -> Layer { return [i](Value h) { return h * (i + 1.0); }; });
  g.output("made", x.gate(weigh, experts));
  const Value trained = x.gate(linear(2), Layers([](int) { return linear(3); }));
  g.minimize(mean(square(trained)), Adam{.lr = 1e-2});
  OnEveryTarget runs(g);
  for (int step = 0; step < 3; ++step) runs.run({{x, numbers({4, 3})}});
  const at::Tensor in = numbers({4, 3});
  const at::Tensor weights = runs.replay().get("router").softmax(-1);
  const at::Tensor first = weights.slice(1, 0, 1), second = weights.slice(1, 1, 2);
  const auto read = [&](const char* name) { return runs.replay().read(name); };
  CHECK(at::allclose(read("listed"), first * in * in + second * 2 * in, 1e-14, 1e-14));
  CHECK(at::allclose(read("made"), (first + 2 * second) * in, 1e-14, 1e-14));
  const std::vector<std::string> paths = runs.replay().storages();
  for (const char* path :
       {"gate_2/router/linear/weight", "gate_2/0/linear/weight", "gate_2/1/linear/weight"}) {
    CHECK(std::ranges::count(paths, path) == 1);
  }
}

TEST_CASE("named values are read by their scope's path") {
  Graph g("g");
  const Value x = g.input("x", f64, {3});
  x.scope("tower", [](Value h) {
    return h.repeat(2, [](Value v) { return (v * 2.0).named("doubled") + 1.0; });
  });
  Executable step = compile(g, cpu_replay(), plain_options());
  step.run({{x, numbers({3})}});
  CHECK(at::equal(step.read("tower/0/doubled"), numbers({3}) * 2));
  CHECK(at::equal(step.read("tower/1/doubled"), (numbers({3}) * 2 + 1) * 2));
}

// ---- models from functions ---------------------------------------------------------------------

/// A layer of two inputs is a function that makes one of the other: it captures the second value.
Layer attend(Value memory) {
  return [=](Value query) {
    const Value asked = query.through(linear(4));
    // A bias of the keys would move all scores of a row alike: its gradient is zero but for
    // rounding, which Adam would blow up.
    const Value keys = memory.through(linear(4, {.bias = false}));
    return matmul(matmul(asked, keys.transpose(0, 1)).through(softmax()), memory);
  };
}

/// A layer of two results is a function of a value.
std::pair<Value, Value> halves(Value x) {
  const Value h = x.through(linear(6));
  return {h.slice(-1, 0, 3), h.slice(-1, 3, 6)};
}

TEST_CASE("layers of several inputs and results, in functions that use each other") {
  const auto model = [](Value x) {
    const auto [value, gate] = halves(x);
    const Layer block = [gate = gate](Value h) {
      return h.also([gate](Value v) { return v.through(attend(gate)) * sigmoid(gate); });
    };
    return value.repeat(2, block);
  };
  check_same(model, model, {4, 3});
  const Graph g = trained(model, {4, 3});
  std::vector<std::string> weights;
  for (const Storage& s : g.data().storages()) {
    if (s.path.ends_with("weight")) weights.push_back(s.path);
  }
  CHECK(weights == std::vector<std::string>{"linear/weight", "repeat/0/linear/weight",
                                            "repeat/0/linear_1/weight", "repeat/1/linear/weight",
                                            "repeat/1/linear_1/weight"});
}

TEST_CASE("a shared layer beside repeated ones: one set of weights, of which all uses count") {
  Graph g("g");
  const Value x = g.input("x", f64, {2, 3});
  const Layer mix = shared(linear(3, {.bias = false}));
  const Value y = x.repeat(3, [&](Value h) {
    const Value mixed = h.through(mix);  // first, as operands are made in any order
    return tanh(mixed + h.through(linear(3)));
  });
  g.minimize(mean(square(y.through(mix))), Sgd{.lr = 0.1});
  std::vector<std::string> weights;
  for (const Storage& s : g.data().storages()) {
    if (s.path.ends_with("weight")) weights.push_back(s.path);
  }
  CHECK(weights == std::vector<std::string>{"repeat/0/shared/linear/weight",
                                            "repeat/0/linear/weight", "repeat/1/linear/weight",
                                            "repeat/2/linear/weight"});
  OnEveryTarget runs(g);
  for (int step = 0; step < 3; ++step) runs.run({{x, numbers({2, 3})}});
}

}  // namespace
}  // namespace metronome::composition_test
