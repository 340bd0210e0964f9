// 0 times infinity: a gradient of 0 stays 0 whatever the slope is, so that a branch that was not
// taken spoils nothing, and what has no probability adds nothing.
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/doctest.h"
#include "tests/executor/corners.h"

namespace metronome::choices_test {
namespace {

using tests::Corner;
using tests::wrong_at;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

using Function = std::function<Value(Value)>;

Corner of_one(const Function& function, std::vector<double> x, std::vector<double> value,
              std::vector<double> slope) {
  return {.function = [=](Graph&, const Values& in) { return function(in[0]); },
          .operands = {std::move(x)},
          .value = std::move(value),
          .gradients = {std::move(slope)}};
}

TEST_CASE("the branch that was not taken") {
  const auto guarded = [](const Function& branch) {
    return [=](Value x) { return where(x > 0.0, branch(x), x); };
  };
  const std::vector<double> points = {-1, 0};
  for (const Function& branch : std::vector<Function>{
           sqrt, log, rsqrt, reciprocal, [](Value x) { return pow(x, 0.5); },
           [](Value x) { return 1.0 / x; }, [](Value x) { return log1p(x * 2.0); },
           [](Value x) { return tanh(log(x)) * sigmoid(sqrt(x)); },
           [](Value x) { return exp(-log(x)); }, [](Value x) { return sin(sqrt(x)); },
           [](Value x) { return gelu(log(x)) + silu(log(x)) + softplus(log(x)); },
           [](Value x) { return square(1.0 / x); }, asin, acos,
           [](Value x) { return erf(log(x)) + erfc(log(x)) + atan(log(x)); },
           [](Value x) { return atan2(log(x), sqrt(x)); }}) {
    CHECK(wrong_at(of_one(guarded(branch), points, points, {1, 1})) == "");
  }
  CHECK(wrong_at(of_one(guarded(sqrt), {4}, {2}, {0.25})) == "");
}

TEST_CASE("of a branch that is broadcast, sums are of what was taken") {
  CHECK(wrong_at({.function =
                      [](Graph&, const Values& in) {
                        return where(in[0] > 0.0, in[1] / in[0] + log(in[0]), in[0]);
                      },
                  .operands = {{2, 0, -1}, {3}},
                  .value = {1.5 + 0.69314718, 0, -1},
                  .gradients = {{-0.75 + 0.5, 1, 1}, {0.5}}}) == "");
}

TEST_CASE("masked_fill, clamp, maximum, minimum and relu beside infinities") {
  CHECK(wrong_at({.function =
                      [](Graph& g, const Values& in) {
                        const Value mask = g.constant({1, 0}, {bool_, {2}});
                        return masked_fill(log(in[0]), mask, 5.0);
                      },
                  .operands = {{0, 1}},
                  .value = {5, 0},
                  .gradients = {{0, 1}}}) == "");
  CHECK(wrong_at(of_one([](Value x) { return clamp(log(x), -2, 2); }, {0, 1, kInfinity}, {-2, 0, 2},
                        {0, 1, 0})) == "");
  CHECK(wrong_at(of_one([](Value x) { return maximum(log(x), -2.0); }, {0, 1}, {-2, 0}, {0, 1})) ==
        "");
  CHECK(wrong_at(of_one([](Value x) { return minimum(1.0 / x, 2.0); }, {0, 1}, {2, 1}, {0, -1})) ==
        "");
  CHECK(wrong_at(of_one([](Value x) { return relu(log(x)); }, {0, 1}, {0, 0}, {0, 0})) == "");
}

TEST_CASE("huber and smooth l1 far from their target") {
  const std::vector<double> x = {kInfinity, -kInfinity, 0.5};
  CHECK(wrong_at({.function =
                      [](Graph& g, const Values& in) {
                        return huber_loss(in[0], g.constant({0, 0, 0}, {f32, {3}}),
                                          {.delta = 2, .reduction = LossReduction::none});
                      },
                  .operands = {x},
                  .value = {kInfinity, kInfinity, 0.125},
                  .gradients = {{2, -2, 0.5}}}) == "");
  CHECK(wrong_at({.function =
                      [](Graph& g, const Values& in) {
                        return smooth_l1_loss(in[0], g.constant({0, 0, 0}, {f32, {3}}), 1,
                                              LossReduction::none);
                      },
                  .operands = {x},
                  .value = {kInfinity, kInfinity, 0.125},
                  .gradients = {{1, -1, 0.5}}}) == "");
}

TEST_CASE("kl_div of what has no probability") {
  const auto divergence = [](bool log_target) {
    return [=](Graph&, const Values& in) {
      return kl_div(in[0], in[1], {.log_target = log_target, .reduction = LossReduction::none});
    };
  };
  CHECK(wrong_at({.function = divergence(false),
                  .operands = {{-kInfinity, -1, -kInfinity, 0}, {0, 0, 1, 1}},
                  .value = {0, 0, kInfinity, 0},
                  .gradients = {{0, 0, -1, -1}}}) == "");
  CHECK(wrong_at({.function = divergence(true),
                  .operands = {{-kInfinity, -1, 0}, {-kInfinity, -kInfinity, 0}},
                  .value = {0, 0, 0},
                  .gradients = {{0, 0, -1}, {0, 0, 1}}}) == "");
}

TEST_CASE("logsumexp of -inf alone, and beside a number") {
  CHECK(wrong_at({.function = [](Graph&, const Values& in) { return logsumexp(in[0], 1); },
                  .operands = {{{-kInfinity, -kInfinity, 2, -kInfinity}, {2, 2}}},
                  .value = {-kInfinity, 2},
                  .gradients = {{0, 0, 1, 0}}}) == "");
}

TEST_CASE("powers at 0 and at infinity") {
  CHECK(wrong_at({.function = [](Graph&, const Values& in) { return pow(in[0], in[1]); },
                  .operands = {{0, 0, 0, kInfinity, kInfinity}, {2, 1, 0, -2, 1}},
                  .value = {0, 0, 1, 0, kInfinity},
                  .gradients = {{0, 1, 0, 0, 1}, {0, 0, 0, 0, kInfinity}}}) == "");
}

TEST_CASE("angles and the error function at the ends of their ranges") {
  const std::vector<double> ends = {-kInfinity, kInfinity, kNan}, flat = {0, 0, kNan};
  CHECK(wrong_at(of_one(erf, ends, {-1, 1, kNan}, flat)) == "");
  CHECK(wrong_at(of_one(erfc, ends, {2, 0, kNan}, flat)) == "");
  CHECK(wrong_at(of_one(atan, ends, {-kPi / 2, kPi / 2, kNan}, flat)) == "");
  CHECK(wrong_at(of_one(asin, {-1, 1, 2}, {-kPi / 2, kPi / 2, kNan},
                        {kInfinity, kInfinity, kNan})) == "");
  CHECK(wrong_at(of_one(acos, {-1, 1, 2}, {kPi, 0, kNan}, {-kInfinity, -kInfinity, kNan})) == "");
}

TEST_CASE("atan2 on the axes, at the origin and at infinity") {
  CHECK(wrong_at({.function = [](Graph&, const Values& in) { return atan2(in[0], in[1]); },
                  .operands = {{0, -0.0, 1, -1, 0, kInfinity, -kInfinity},
                               {-1, -1, 0, 0, 0, kInfinity, -kInfinity}},
                  .value = {kPi, -kPi, kPi / 2, -kPi / 2, 0, kPi / 4, -3 * kPi / 4},
                  .gradients = {{-1, -1, 0, 0, 0, kNan, kNan}, {0, 0, -1, 1, 0, kNan, kNan}}}) ==
        "");
}

TEST_CASE("activations at infinities have their limits, and a NaN stays") {
  const std::vector<double> ends = {-kInfinity, kInfinity, kNan};
  const std::vector<double> rises = {0, kInfinity, kNan}, slopes = {0, 1, kNan};
  CHECK(wrong_at(of_one(silu, ends, rises, slopes)) == "");
  CHECK(wrong_at(of_one(gelu, ends, rises, slopes)) == "");
  CHECK(wrong_at(of_one(gelu_tanh, ends, rises, slopes)) == "");
  CHECK(wrong_at(of_one(mish, {-kInfinity, kInfinity}, {0, kInfinity}, {0, 1})) == "");
  CHECK(wrong_at(of_one(hardswish, {-kInfinity, kInfinity}, {0, kInfinity}, {0, 1})) == "");
  CHECK(wrong_at(of_one(softsign, ends, {-1, 1, kNan}, {0, 0, kNan})) == "");
  CHECK(wrong_at(of_one(softplus, ends, rises, slopes)) == "");
}

TEST_CASE("a focal loss of what is certain") {
  CHECK(wrong_at({.function =
                      [](Graph&, const Values& in) {
                        return sigmoid_focal_loss(
                            in[0], in[1],
                            {.alpha = -1, .gamma = 0.5, .reduction = LossReduction::none});
                      },
                  .operands = {{200, -200}, {1, 0}},
                  .value = {0, 0},
                  .gradients = {{0, 0}}}) == "");
}

TEST_CASE("poisson_nll_loss of a rate of 0 that was right") {
  CHECK(wrong_at({.function =
                      [](Graph& g, const Values& in) {
                        return poisson_nll_loss(in[0], g.constant({0, 1}, {f32, {2}}),
                                                {.reduction = LossReduction::none});
                      },
                  .operands = {{-kInfinity, 0}},
                  .value = {0, 1},
                  .gradients = {{0, 0}}}) == "");
}

TEST_CASE("an infinite gradient through batch norm leaves its sign in the weight's gradient") {
  for (const Element element : {f32, f64}) {
    const auto type = element == f32 ? at::kFloat : at::kDouble;
    for (const Shape& shape : {Shape{3, 1}, Shape{1, 1, 3}}) {
      for (const Target& target : {cpu_replay(), tests::device_of_host()}) {
        Graph g("normalized");
        const Value x = g.input("x", element, shape), slope = g.input("slope", element, shape);
        g.minimize(sum(x.through(batch_norm({.eps = 0.1})) * slope), Sgd{});
        const std::string weight = "batch_norm/weight";
        g.output("gradient", g.gradient(g.parameter(weight)));
        Executable step = compile(g, target, tests::plain_options());
        const at::Tensor numbers =
            at::tensor({-0.1507832, -0.6834547, -0.0417119}, type).view(shape);
        for (const int place : {0, 1, 2}) {
          at::Tensor slopes = at::full(shape, -0.05, type);
          slopes.view({-1})[place] = -kInfinity;
          step.set(weight, at::ones({1}, type));
          step.run({{x, numbers}, {slope, slopes}});
          CAPTURE(step.report().target);
          CAPTURE(place);
          CHECK(step.read("gradient").item<double>() == (place == 1 ? kInfinity : -kInfinity));
        }
      }
    }
  }
}

TEST_CASE("a NaN with a gradient is not hidden") {
  CHECK(wrong_at(of_one(sqrt, {-1}, {kNan}, {kNan})) == "");
  CHECK(wrong_at(of_one([](Value x) { return x * log(x); }, {0}, {kNan}, {-kInfinity})) == "");
}

}  // namespace
}  // namespace metronome::choices_test
