// Losses and activations far out: each number right to its own size, not only to that of 1.
//
//   bce_with_logits_loss of z, target 1    z = 20: 2.0611536e-9, log(1 + exp(-20)), not 0
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "tests/doctest.h"
#include "tests/executor/corners.h"

namespace metronome::tails_test {
namespace {

using tests::Corner;
using tests::wrong_at;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

auto bce(LossReduction reduction = LossReduction::none) {
  return [=](Graph&, const Values& in) {
    return bce_with_logits_loss(in[0], in[1], {.reduction = reduction});
  };
}

TEST_CASE("bce_with_logits_loss keeps its digits where it is nearly 0") {
  CHECK(wrong_at({.function = bce(),
                  .operands = {{20, 10, -10, -20, 0}, {1, 1, 0, 0, 1}},
                  .value = {2.0611536e-9, 4.53988992e-5, 4.53988992e-5, 2.0611536e-9, 0.69314718},
                  .gradients = {{-2.0611536e-9, -4.5397868e-5, 4.5397868e-5, 2.0611536e-9, -0.5},
                                {-20, -10, 10, 20, 0}}}) == "");
  CHECK(wrong_at({.function = bce(),
                  .operands = {{40, -40}, {1, 0}},
                  .value = {4.24835425529159e-18, 4.24835425529159e-18},
                  .gradients = {{-4.24835425529159e-18, 4.24835425529159e-18}},
                  .element = f64,
                  .tolerance = 1e-14}) == "");
}

TEST_CASE(
    "bce_with_logits_loss: the mean, weights of the positive, targets in between, infinities") {
  CHECK(wrong_at({.function = bce(LossReduction::mean),
                  .operands = {{20, 20}, {1, 1}},
                  .value = {2.0611536e-9},
                  .gradients = {{-1.0305768e-9, -1.0305768e-9}}}) == "");
  CHECK(wrong_at({.function =
                      [](Graph& g, const Values& in) {
                        return bce_with_logits_loss(
                            in[0], in[1],
                            {.pos_weight = g.constant(3.0, f32), .reduction = LossReduction::none});
                      },
                  .operands = {{20, -20}, {1, 0}},
                  .value = {3 * 2.0611536e-9, 2.0611536e-9},
                  .gradients = {{-3 * 2.0611536e-9, 2.0611536e-9}}}) == "");
  CHECK(wrong_at({.function = bce(),
                  .operands = {{2, kInfinity, -kInfinity, kInfinity}, {0.25, 1, 0, 0}},
                  .value = {1.6269280, 0, 0, kInfinity},
                  .gradients = {{0.6307971, 0, 0, 1}}}) == "");
}

TEST_CASE("cross_entropy_loss keeps its digits where one class is nearly certain") {
  const auto loss = [](Graph& g, const Values& in) {
    return cross_entropy_loss(in[0], g.constant({0}, {i64, {1}}));
  };
  CHECK(wrong_at({.function = loss,
                  .operands = {{{20, 0}, {1, 2}}},
                  .value = {2.0611536e-9},
                  .gradients = {{-2.0611536e-9, 2.0611536e-9}}}) == "");
  CHECK(wrong_at({.function = loss,
                  .operands = {{{40, 0, 1}, {1, 3}}},
                  .value = {1.57965784e-17},
                  .gradients = {{-1.57965784e-17, 4.24835426e-18, 1.15482242e-17}},
                  .element = f64,
                  .tolerance = 1e-7}) == "");
  CHECK(wrong_at({.function = [](Graph&, const Values& in) { return log_softmax(in[0], 0); },
                  .operands = {{{15, 0}, {2, 1}}},
                  .value = {-3.0590227e-7, -15.000000306},
                  .gradients = {{1 - 2 * (1 - 3.0590222e-7), 1 - 2 * 3.0590222e-7}}}) == "");
}

/// A function, its slope, and where they are known.
struct Curve {
  std::string name;
  std::function<Value(Value)> function;
  long double (*value)(long double);
  long double (*slope)(long double);
  /// Relative to itself, as measured over -80 to 80 in f32; see what is said of each.
  double of_value = 1e-6, of_slope = 1e-6;
};

long double sigmoid_at(long double x) { return 1 / (1 + std::exp(-x)); }
long double softplus_at(long double x) {
  return std::log1p(std::exp(-std::abs(x))) + (x > 0 ? x : 0);
}
long double bell(long double x) {
  return 2 * std::numbers::inv_sqrtpi_v<long double> * std::exp(-x * x);
}

std::vector<Curve> curves() {
  using L = long double;
  return {
      {"sigmoid", sigmoid, sigmoid_at, [](L x) { return sigmoid_at(x) * sigmoid_at(-x); }, 1e-6, 1},
      {"tanh", tanh, [](L x) { return std::tanh(x); },
       [](L x) { return 1 / (std::cosh(x) * std::cosh(x)); }, 1e-6, 1},
      {"softplus", softplus, softplus_at, sigmoid_at},
      {"logsigmoid", logsigmoid, [](L x) { return -softplus_at(-x); },
       [](L x) { return sigmoid_at(-x); }},
      {"silu", silu, [](L x) { return x * sigmoid_at(x); },
       [](L x) { return sigmoid_at(x) * (1 + x * sigmoid_at(-x)); }, 1e-6, 2e-5},
      {"gelu", gelu, [](L x) { return x * std::erfc(-x * std::sqrt(0.5L)) / 2; },
       [](L x) {
         return std::erfc(-x * std::sqrt(0.5L)) / 2 +
                x * std::exp(-x * x / 2) * 0.39894228040143267794L;
       },
       1e-5, 1e-3},
      {"softsign", softsign, [](L x) { return x / (1 + std::abs(x)); },
       [](L x) { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }},
      {"elu", [](Value x) { return elu(x); }, [](L x) { return x > 0 ? x : std::expm1(x); },
       [](L x) { return x > 0 ? 1 : std::exp(x); }},
      {"mish", mish, [](L x) { return x * std::tanh(softplus_at(x)); },
       [](L x) {
         const L t = std::tanh(softplus_at(x));
         return t + x * (1 - t * t) * sigmoid_at(x);
       },
       1e-6, 1e-4},
      {"erf", erf, [](L x) { return std::erf(x); }, bell, 1e-6, 3e-6},
      {"erfc", erfc, [](L x) { return std::erfc(x); }, [](L x) { return -bell(x); }, 1e-6, 3e-6},
      {"atan", atan, [](L x) { return std::atan(x); }, [](L x) { return 1 / (1 + x * x); }},
      {"log(sigmoid)", [](Value x) { return log(sigmoid(x)); },
       [](L x) { return -softplus_at(-x); }, [](L x) { return sigmoid_at(-x); }, 1, 1},
  };
}

TEST_CASE("activations and their slopes over both tails, relative to themselves") {
  std::vector<double> points;
  for (double x = -80; x <= 80; x += 0.37) points.push_back(static_cast<float>(x));
  fmt::print("{:<14} {:>12} {:>8} {:>12} {:>8}\n", "f32", "value", "at", "slope", "at");
  for (const Curve& curve : curves()) {
    CAPTURE(curve.name);
    Graph g("curve");
    const auto count = static_cast<std::int64_t>(points.size());
    const Value x = g.parameter("x", {f32, {count}}, zeros());
    const Value y = curve.function(x);
    g.output("y", y);
    g.output("slope", g.gradient(x));
    g.minimize(sum(y), Sgd{.lr = 0});
    Executable step = compile(g, cpu_replay(), tests::plain_options());
    step.set("x", at::tensor(points, at::kDouble).to(at::kFloat));
    step.run();
    const at::Tensor values = step.read("y"), slopes = step.read("slope");
    double worst[2] = {0, 0}, at[2] = {0, 0};
    for (std::int64_t i = 0; i < count; ++i) {
      const double point = points[static_cast<std::size_t>(i)];
      const long double right[2] = {curve.value(point), curve.slope(point)};
      const float found[2] = {values.data_ptr<float>()[i], slopes.data_ptr<float>()[i]};
      for (int k = 0; k < 2; ++k) {
        if (std::abs(right[k]) < 1e-20L) continue;  // gelu ends at 8e-24
        const auto error = static_cast<double>(
            std::abs((static_cast<long double>(found[k]) - right[k]) / right[k]));
        if (error > worst[k]) worst[k] = error, at[k] = point;
      }
    }
    fmt::print("{:<14} {:>12.2e} {:>8.2f} {:>12.2e} {:>8.2f}\n", curve.name, worst[0], at[0],
               worst[1], at[1]);
    CHECK(worst[0] <= curve.of_value);
    CHECK(worst[1] <= curve.of_slope);
  }
}

}  // namespace
}  // namespace metronome::tails_test
