// Norms over channels, groups of them and instances, beside libtorch's.
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/instance_norm.h>

#include <vector>

#include "ops/layers/norms.h"
#include "tests/aten.h"
#include "tests/ops/layer_runs.h"

namespace metronome::norms_test {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {
    {6, 4}, {3, 4, 7}, {3, 4, 5, 6}, {2, 4, 3, 2, 5}};

TEST_CASE("batch_norm normalises by the batch, and moves its running statistics as PyTorch does") {
  for (const auto& shape : kShapes) {
    CAPTURE(shape);
    Graph g("one layer");
    const Value x = g.input("x", f64, shape);
    const Value y = x.through(batch_norm({.momentum = 0.3}));
    g.output("y", y);
    g.minimize(sum(y * g.input("weights", f64, shape)), Sgd{.lr = 0});
    const Value gradient = g.gradient(x);
    Executable step = compile(g, cpu_replay(), {.modes = {Mode::train, Mode::evaluate}});

    at::Tensor mean = at::zeros({4}, at::kDouble), variance = at::ones({4}, at::kDouble);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor data = (scattered(shape) * (i + 1) + 3).requires_grad_(true);
      const at::Tensor weights = scattered(shape).square();
      step.run({{"x", data.detach()}, {"weights", weights}});
      const at::Tensor expected =
          at::batch_norm(data, {}, {}, mean, variance, true, 0.3, 1e-5, false);
      (expected * weights).sum().backward();
      CHECK(at::allclose(step.read("y"), expected, 1e-12, 1e-13));
      CHECK(at::allclose(step.read(gradient), data.grad(), 1e-10, 1e-12));
      CHECK(at::allclose(step.get("batch_norm/running_mean"), mean, 1e-12, 1e-13));
      CHECK(at::allclose(step.get("batch_norm/running_var"), variance, 1e-12, 1e-13));
    }

    const at::Tensor data = scattered(shape), before = step.get("batch_norm/running_var").clone();
    step.evaluate({{"x", data}, {"weights", data}});
    const at::Tensor expected =
        at::batch_norm(data, {}, {}, mean, variance, false, 0.3, 1e-5, false);
    CHECK(at::allclose(step.read("y"), expected, 1e-12, 1e-13));
    CHECK(step.get("batch_norm/running_var").equal(before));
  }
}

// The distance from f64 of the gradient of batch norm's bias, a sum that nearly cancels.
double bias_error(const at::Tensor& bias_gradient, const at::Tensor& gradient) {
  const at::Tensor exact = gradient.to(at::kDouble).sum({0, 2, 3});
  return (bias_gradient.to(at::kDouble) - exact).norm().item<double>();
}

TEST_CASE("batch_norm's sums that cancel are about as near to f64 as libtorch's") {
  for (const Shape& shape : {Shape{64, 64, 32, 32}, Shape{64, 128, 16, 16}, Shape{64, 256, 8, 8}}) {
    CAPTURE(shape);
    Graph g("one layer");
    const Value y = g.input("x", f32, shape).through(batch_norm());
    g.minimize(sum(y * g.input("weights", f32, shape)), Sgd{.lr = 0});
    const Value gradient = g.gradient(g.parameter("batch_norm/bias"));
    Executable step = compile(g);
    const at::Tensor x = at::randn(shape), weights = at::randn(shape);
    step.run({{"x", x}, {"weights", weights}});
    const at::Tensor bias = at::zeros({shape[1]}).requires_grad_(true);
    at::batch_norm(x, {}, bias, {}, {}, true, 0.1, 1e-5, false).mul(weights).sum().backward();
    const double ours = bias_error(step.read(gradient), weights);
    CHECK(ours <= 3 * bias_error(bias.grad(), weights));
  }
}

TEST_CASE("the running variance is that of a sample, the batch's own is not") {
  Graph g("one layer");
  g.output("y", g.input("x", f64, {2, 1}).through(batch_norm({.eps = 0, .momentum = 1})));
  Executable step = compile(g);
  step.run({{"x", at::tensor({1.0, 5.0}, at::kDouble).reshape({2, 1})}});
  CHECK(step.get("batch_norm/running_var").item<double>() == 8);  // (4 + 4) / (2 - 1)
  CHECK(step.read("y").flatten().equal(at::tensor({-1.0, 1.0}, at::kDouble)));
}

TEST_CASE("group_norm has a weight and a bias for each channel") {
  Graph g("one layer");
  const Value y = g.input("x", f32, {2, 6, 5, 5}).through(group_norm(3));
  CHECK(y.type() == Type{f32, {2, 6, 5, 5}});
  const std::vector<Storage> made = made_by_layers(g);
  REQUIRE(made.size() == 2);
  CHECK(made[0].path == "group_norm/weight");
  CHECK(made[0].type == Type{f32, {6}});
  CHECK(made[0].init == ones());
  CHECK(made[1].path == "group_norm/bias");
  CHECK(made[1].init == zeros());
}

TEST_CASE("instance_norm has none unless they are asked for") {
  Graph g("one layer");
  g.input("x", f32, {2, 6, 5}).through(instance_norm());
  CHECK(made_by_layers(g).empty());
  g.input("z", f32, {2, 6, 5}).through(instance_norm({.affine = true}));
  CHECK(made_by_layers(g).size() == 2);
}

TEST_CASE("group_norm and instance_norm agree with libtorch, in value and gradient") {
  const auto check = [](const Layer& layer, const at::Tensor& x, const auto& torch) {
    const at::Tensor own = x.clone().requires_grad_(true), weights = scattered(x.sizes()).square();
    const at::Tensor y = torch(own);
    (y * weights).sum().backward();
    CHECK(at::allclose(result_of(layer, x), y, 1e-12, 1e-13));
    CHECK(at::allclose(gradient_of(layer, x, weights), own.grad(), 1e-10, 1e-12));
  };
  for (const auto& shape : kShapes) {
    CAPTURE(shape);
    const at::Tensor x = scattered(shape) + 10;
    for (const std::int64_t groups : {1, 2}) {
      check(group_norm(groups), x,
            [=](const at::Tensor& v) { return at::group_norm(v, groups, {}, {}, 1e-5, false); });
    }
    if (shape.size() == 2) continue;
    const auto instance = [](const at::Tensor& v) {
      return at::instance_norm(v, {}, {}, {}, {}, true, 0, 1e-5, false);
    };
    check(instance_norm(), x, instance);
    check(instance_norm({.affine = true}), x, instance);
  }
}

TEST_CASE("group_norm's weight and bias scale and move channels") {
  Graph g("one layer");
  g.output("y", g.input("x", f64, {2, 4, 3, 5}).through(group_norm(2, {.eps = 0.1})));
  Executable step = compile(g, cpu_replay(), {.modes = {Mode::evaluate}});
  const at::Tensor x = scattered({2, 4, 3, 5}), weight = scattered({4}), bias = scattered({4}) - 1;
  step.set("group_norm/weight", weight);
  step.set("group_norm/bias", bias);
  step.evaluate({{"x", x}});
  CHECK(at::allclose(step.read("y"), at::group_norm(x, 2, weight, bias, 0.1, false), 1e-12, 1e-13));
}

TEST_CASE("group_norm far from zero keeps its digits") {
  const at::Tensor x = (scattered({2, 4, 8, 8}) + 1000).to(at::kFloat);
  const at::Tensor expected = at::group_norm(x.to(at::kDouble), 2, {}, {}, 1e-5, false);
  CHECK(at::allclose(result_of(group_norm(2), x).to(at::kDouble), expected, 1e-3, 1e-4));
}

TEST_CASE("wrong numbers of group_norm and instance_norm") {
  CHECK(mistake_of(group_norm(4), f32, {2, 6, 5}) ==
        "net.cc:2: group_norm cannot be applied\n"
        "  operand 0  f32[2, 6, 5]  \"x\"  net.cc:1\n"
        "  requires   channels that 4 groups divide, but 6");
  const auto requires_ = [](const Layer& layer, Shape shape) {
    const std::string all = mistake_of(layer, f32, std::move(shape)), word = "  requires   ";
    return all.substr(all.find(word) + word.size());
  };
  CHECK(requires_(group_norm(0), {2, 6, 5}) == "a number of groups of 1 or more, but 0");
  CHECK(requires_(group_norm(1), {6}) == "an operand [N, C, ...], but [6]");
  CHECK(requires_(group_norm(1), {2, 0, 3}) == "a number of channels of 1 or more, but 0");
  CHECK(requires_(group_norm(1), {2, 3, 0}) == "channels of one or more elements, but [2, 3, 0]");
  CHECK(requires_(group_norm(1, {.eps = -1}), {2, 3, 4}) == "a finite eps of 0 or more, but -1");
  CHECK(requires_(instance_norm(), {2, 3}) == "an operand [N, C, spatial...], but [2, 3]");
  CHECK(requires_(instance_norm(), {2, 3, 1}) ==
        "two or more elements of each channel, as one has no variance, but [2, 3, 1]");
}

}  // namespace
}  // namespace metronome::norms_test
