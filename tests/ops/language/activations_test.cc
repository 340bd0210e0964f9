// Activations beside libtorch's: values and gradients at numbers of all sizes, at kinks and at the
// ends of the types; what is said of wrong operands.
#include "ops/language/activations.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/prelu.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/silu.h>

#include <cmath>
#include <limits>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/ops/beside_libtorch.h"

namespace metronome::activations_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Numbers that f32 holds: of all sizes and both signs, and all kinks.
at::Tensor points() {
  std::vector<double> all = {0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  for (const double x : {1e-30, 1e-20, 1e-8, 1e-4, 0.1,  0.5,   1.0,  2.0,  2.5,  3.0,
                         5.9,   6.0,   6.1,  8.0,  10.0, 17.0,  19.5, 20.0, 21.0, 30.0,
                         41.0,  60.0,  87.0, 88.0, 90.0, 100.0, 1e3,  1e10, 1e18, 1e30}) {
    all.push_back(static_cast<float>(x)), all.push_back(-static_cast<float>(x));
  }
  return numbers(all);
}

at::Tensor ones_of(at::IntArrayRef sizes) {
  return at::ones(sizes, at::TensorOptions(at::kDouble));
}

at::Tensor finite_points() {
  const at::Tensor x = points();
  return x.index_select(0, at::isfinite(x).nonzero().flatten());
}

/// Below these sizes errors are not measured by a number's own size: where a slope has a root, and
/// where libtorch's own formula cancels.
struct Floor {
  double value = 1e-30, slope = 1e-30;
};

/// The first number that is not as near to libtorch's in f64 as its own type allows, relative to
/// itself or to `floor`.
std::string apart(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& x,
                  double share, double floor) {
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double a = found.to(at::kDouble)[i].item<double>(), b = expected[i].item<double>();
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::abs(a - b) <= share * std::max(std::abs(b), floor)) continue;
    return fmt::format("{} in place of {} at {}", a, b, x[i].item<double>());
  }
  return "";
}

std::string edges(const OfValues& ours, const OfTensors& theirs, Floor floor = {},
                  const at::Tensor& x = points()) {
  const Computed expected = by_libtorch(theirs, {{x}}, ones_of, f64);
  // The slopes of libtorch at NaN are 0 for some functions and 1 for others.
  const at::Tensor known = at::isnan(x);
  const at::Tensor by_x = at::where(known, 0.0, *expected.gradients[0]);
  for (const Element element : {f32, f64}) {
    const Computed found = by_graph(ours, {{x}}, ones_of, element);
    const double share = element == f32 ? 2e-6 : 2e-14;
    const std::string type(name_of(element));
    if (auto text = apart(found.out, expected.out, x, share, floor.value); !text.empty()) {
      return type + ": " + text;
    }
    const at::Tensor ours_by_x = at::where(known, 0.0, found.gradients[0]->to(at::kDouble));
    if (auto text = apart(ours_by_x, by_x, x, share, floor.slope); !text.empty()) {
      return type + ": slope " + text;
    }
  }
  return "";
}

OfValues each(Activation activation) {
  return [=](const Values& in) { return activation(in[0]); };
}

}  // namespace

TEST_CASE("activations without numbers are libtorch's") {
  using T = const Tensors&;
  CHECK(edges(each(selu), [](T in) { return at::selu(in[0]); }) == "");
  CHECK(edges(each(relu6), [](T in) { return at::hardtanh(in[0], 0, 6); }) == "");
  // Its slope has a root at -1.19.
  CHECK(edges(
            each(mish), [](T in) { return at::mish(in[0]); }, {.slope = 1e-2}, finite_points()) ==
        "");
  CHECK(edges(
            each(hardswish), [](T in) { return at::hardswish(in[0]); }, {.slope = 0.1},
            finite_points()) == "");
  CHECK(edges(each(hardsigmoid), [](T in) { return at::hardtanh(in[0] + 3, 0, 6) / 6; }) == "");
  CHECK(edges(
            each(softsign), [](T in) { return in[0] / (at::abs(in[0]) + 1); }, {.slope = 1e-2},
            numbers_in(-100, 100, {500}).to(at::kFloat).to(at::kDouble)) == "");
  CHECK(edges(each(logsigmoid), [](T in) { return at::log_sigmoid(in[0]); }) == "");
  // libtorch's own tail is 1 + tanh, rounded at 1e-16, and its slope at infinities no number.
  CHECK(edges(
            each(gelu_tanh), [](T in) { return at::gelu(in[0], "tanh"); },
            {.value = 0.3, .slope = 0.3}, finite_points()) == "");
  CHECK(edges(each(tanhshrink), [](T in) { return in[0] - at::tanh(in[0]); },
              {.value = 1, .slope = 1}) == "");
}

TEST_CASE("hardsigmoid has libtorch's kinks; its slope there is 1 / 6 of f32 in f64 too") {
  const at::Tensor x = numbers({-4, -3, -2.5, 0, 2.5, 3, 4, kInfinity, -kInfinity});
  CHECK(beside_libtorch(each(hardsigmoid), [](const Tensors& in) { return at::hardsigmoid(in[0]); },
                        {{x}}, {1e-6, 1e-7}) == "");
}

TEST_CASE("softsign of large numbers is libtorch's") {
  const at::Tensor x = numbers({1e10, -1e10, 0});
  CHECK(beside_libtorch(each(softsign),
                        [](const Tensors& in) { return in[0] / (at::abs(in[0]) + 1); },
                        {{x}}) == "");
}

TEST_CASE("activations with numbers are libtorch's") {
  for (const double number : {1.0, 0.3, -0.5}) {
    CHECK(edges([=](const Values& in) { return elu(in[0], number); },
                [=](const Tensors& in) { return at::elu(in[0], number); }) == "");
  }
  for (const double number : {0.01, 0.3, 0.0, -2.0}) {
    CHECK(edges([=](const Values& in) { return leaky_relu(in[0], number); },
                [=](const Tensors& in) { return at::leaky_relu(in[0], number); }) == "");
  }
  CHECK(edges([](const Values& in) { return hardtanh(in[0]); },
              [](const Tensors& in) { return at::hardtanh(in[0]); }) == "");
  CHECK(edges([](const Values& in) { return hardtanh(in[0], -2.5, 3); },
              [](const Tensors& in) { return at::hardtanh(in[0], -2.5, 3); }) == "");
}

TEST_CASE("softplus, and all that is made of it, keeps its digits in both tails") {
  CHECK(edges(
            each(mish), [](const Tensors& in) { return at::mish(in[0]); }, {.slope = 1e-2},
            at::linspace(-80, 80, 1601, at::TensorOptions(at::kFloat)).to(at::kDouble)) == "");
  CHECK(edges(
            each(logsigmoid), [](const Tensors& in) { return at::log_sigmoid(in[0]); }, {},
            at::linspace(-80, 80, 1601, at::TensorOptions(at::kFloat)).to(at::kDouble)) == "");
}

TEST_CASE("prelu has one weight, or one for each channel") {
  const OfValues ours = [](const Values& in) { return prelu(in[0], in[1]); };
  const OfTensors theirs = [](const Tensors& in) { return at::prelu(in[0], in[1]); };
  at::Tensor x = numbers_in(-2, 2, {4, 3, 5});
  x[0][0][0] = 0;
  CHECK(beside_libtorch(ours, theirs, {{x}, {numbers({0.25, -0.5, 2})}}) == "");
  CHECK(beside_libtorch(ours, theirs, {{x}, {numbers({0.25})}}) == "");
  CHECK(beside_libtorch(ours, theirs, {{x[0][0]}, {numbers({0.25})}}) == "");
  x[0][0][1] = kInfinity;
  CHECK(beside_libtorch(ours, theirs, {{x}, {numbers({0.25, -0.5, 2})}}) == "");
}

TEST_CASE("gated linear units take halves along an axis") {
  for (const std::int64_t axis : {-1, 0, 1}) {
    const at::Tensor x = numbers_in(-3, 3, {4, 2, 6});
    CHECK(beside_libtorch([=](const Values& in) { return glu(in[0], axis); },
                          [=](const Tensors& in) { return at::glu(in[0], axis); }, {{x}}) == "");
    const auto theirs = [=](const Tensors& in) {
      const auto halves = in[0].chunk(2, axis);
      return at::silu(halves[0]) * halves[1];
    };
    CHECK(beside_libtorch([=](const Values& in) { return swiglu(in[0], axis); }, theirs, {{x}}) ==
          "");
  }
}

TEST_CASE("activations as layers") {
  const at::Tensor x = numbers_in(-3, 3, {3, 4});
  const auto through = [&](const Layer& layer, const OfTensors& theirs) {
    return beside_libtorch([=](const Values& in) { return in[0].through(layer); }, theirs, {{x}});
  };
  CHECK(through(mish, [](const Tensors& in) { return at::mish(in[0]); }) == "");
  CHECK(through(elu(0.5), [](const Tensors& in) { return at::elu(in[0], 0.5); }) == "");
  CHECK(through(leaky_relu(), [](const Tensors& in) { return at::leaky_relu(in[0]); }) == "");
  CHECK(through(hardtanh(), [](const Tensors& in) { return at::hardtanh(in[0]); }) == "");
  CHECK(through(glu(), [](const Tensors& in) { return at::glu(in[0]); }) == "");
  CHECK(Layer(mish).is_rowwise());
  CHECK(elu().is_rowwise());
  CHECK(prelu().is_rowwise());
  CHECK_FALSE(prelu({.channels = 3}).is_rowwise());
  CHECK(swiglu().is_rowwise());
  CHECK_FALSE(glu(0).is_rowwise());
}

TEST_CASE("the layer prelu has a parameter that begins at 0.25") {
  Graph g("prelu");
  g.input("x", f32, {2, 3}).through(prelu({.channels = 3}));
  g.validate();
  std::vector<Storage> storages = g.data().storages();
  std::erase_if(storages, [](const Storage& s) { return s.kind == StorageKind::counter; });
  REQUIRE(storages.size() == 1);
  CHECK(storages[0].path == "prelu/weight");
  CHECK(storages[0].type == Type{f32, {3}});
}

TEST_CASE("what activations say of wrong operands") {
  CHECK(report([](Graph& g) { mish(input(g, "x", i64, {3}), kHere); }) ==
        "model.cc:30: mish cannot be computed\n"
        "  operand 0  i64[3]  \"x\"  model.cc:10\n"
        "  requires   a floating element type, but i64\n"
        "  way out    cast it: x.cast(mt::f32)");
  CHECK(report([](Graph& g) { elu(input(g, "x", f32, {3}), kInfinity, kHere); }) ==
        "model.cc:30: elu cannot be computed\n"
        "  operand 0  f32[3]  \"x\"  model.cc:10\n"
        "  requires   a finite alpha, but inf");
  CHECK(report([](Graph& g) { leaky_relu(input(g, "x", f32, {3}), 1e300, kHere); }) ==
        "model.cc:30: leaky_relu cannot be computed\n"
        "  operand 0  f32[3]  \"x\"  model.cc:10\n"
        "  requires   a number for slope that f32 can hold, but 1e+300");
  CHECK(report([](Graph& g) { hardtanh(input(g, "x", f32, {3}), 1, 1, kHere); }) ==
        "model.cc:30: hardtanh cannot be computed\n"
        "  operand 0  f32[3]  \"x\"  model.cc:10\n"
        "  requires   a lower bound that is below the upper one, but 1 and 1");
  CHECK(report([](Graph& g) { glu(input(g, "x", f32, {3, 5}), -1, kHere); }) ==
        "model.cc:30: glu cannot be computed\n"
        "  operand 0  f32[3, 5]  \"x\"  model.cc:10\n"
        "  requires   an even size along axis -1, but 5");
  CHECK(report([](Graph& g) { swiglu(input(g, "x", f32, {4}), 1, kHere); }) ==
        "model.cc:30: swiglu cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  requires   an axis from -1 to 0, but 1");
  CHECK(report([](Graph& g) { glu(input(g, "x", f32, {}), -1, kHere); }) ==
        "model.cc:30: glu cannot be computed\n"
        "  operand 0  f32[]  \"x\"  model.cc:10\n"
        "  requires   an operand of one or more dimensions, but a scalar");
  CHECK(
      report([](Graph& g) { prelu(input(g, "x", f32, {4, 3}), input(g, "w", f32, {4}), kHere); }) ==
      "model.cc:30: prelu cannot be computed\n"
      "  operand 0  f32[4, 3]  \"x\"  model.cc:10\n"
      "  operand 1  f32[4]     \"w\"  model.cc:10\n"
      "  requires   a weight of shape [1], or one for each channel, [3], but [4]");
  CHECK(
      report([](Graph& g) { input(g, "x", f32, {4, 3}).through(prelu({.channels = 2}), kHere); }) ==
      "model.cc:30: prelu cannot be computed\n"
      "  operand 0  f32[4, 3]  \"x\"  model.cc:10\n"
      "  requires   1 channel, or as many as the operand's 3, but 2");
  CHECK(report([](Graph& g) { prelu(input(g, "x", f32, {4, 3}), Value(), kHere); }) ==
        "model.cc:30: prelu cannot be computed\n"
        "  operand 0  f32[4, 3]  \"x\"  model.cc:10\n"
        "  operand 1  absent\n"
        "  requires   every operand, but one is absent (a default-made Value)");
  CHECK_THROWS_WITH_AS(mish(Value(), kHere),
                       "model.cc:30: mish has no operand that belongs to a graph\n"
                       "  way out    begin with Graph::input or Graph::parameter",
                       GraphError);
}

TEST_CASE("an operand of another graph is named") {
  Graph other("other");
  const Value w = input(other, "w", f32, {1});
  CHECK(report([&](Graph& g) { prelu(input(g, "x", f32, {4}), w, kHere); }) ==
        "model.cc:30: prelu cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  operand 1  f32[1]  \"w\"  model.cc:10\n"
        "  requires   operands of one graph, but of \"wrong\" and \"other\"");
}

}  // namespace metronome::activations_test
