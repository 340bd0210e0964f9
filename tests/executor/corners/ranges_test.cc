// Norms and what divides by them at the ends of f32's range: 1e20 squared is beyond it, 1e-30
// squared is 0.
#include <cmath>
#include <limits>

#include "tests/doctest.h"
#include "tests/executor/corners.h"

namespace metronome::ranges_test {
namespace {

using tests::Corner;
using tests::wrong_at;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

auto norm_by(double p) {
  return [=](Graph&, const Values& in) { return norm(in[0], p); };
}

TEST_CASE("the norm of large and of small numbers") {
  CHECK(wrong_at({.function = norm_by(2),
                  .operands = {{1e20, 1, 1}},
                  .value = {1e20},
                  .gradients = {{1, 1e-20, 1e-20}}}) == "");
  CHECK(wrong_at({.function = norm_by(2),
                  .operands = {{3e-30, 0, -4e-30}},
                  .value = {5e-30},
                  .gradients = {{0.6, 0, -0.8}}}) == "");
  CHECK(wrong_at(
            {.function = norm_by(2), .operands = {{0, 0}}, .value = {0}, .gradients = {{0, 0}}}) ==
        "");
  CHECK(wrong_at({.function = norm_by(3),
                  .operands = {{1e20, 0, -1e20}},
                  .value = {1.25992105e20},
                  .gradients = {{0.62996052, 0, -0.62996052}}}) == "");
  CHECK(wrong_at({.function = [](Graph&, const Values& in) { return norm(in[0], 2, 0, true); },
                  .operands = {{{1e20, 3, 1e20, 4}, {2, 2}}},
                  .value = {1.41421356e20, 5},
                  .gradients = {{0.70710678, 0.6, 0.70710678, 0.8}}}) == "");
  CHECK(wrong_at({.function = norm_by(2),
                  .operands = {{1, kInfinity}},
                  .value = {kInfinity},
                  .gradients = {}}) == "");
}

TEST_CASE("what divides by a norm") {
  CHECK(wrong_at({.function = [](Graph&, const Values& in) { return normalize(in[0], 0); },
                  .operands = {{3e20, 4e20}},
                  .value = {0.6, 0.8}}) == "");
  CHECK(wrong_at({.function = [](Graph&,
                                 const Values& in) { return cosine_similarity(in[0], in[1], 0); },
                  .operands = {{1e25, 1e25}, {1e-25, 0}},
                  .value = {0.70710678 * 1e-25 / 1e-8}}) == "");  // the least size is 1e-8
  CHECK(wrong_at({.function =
                      [](Graph& g, const Values& in) {
                        const Value alike = g.constant({1}, {f32, {1}});
                        return cosine_embedding_loss(in[0].reshape({1, 2}), in[1].reshape({1, 2}),
                                                     alike);
                      },
                  .operands = {{1e25, 1e25}, {1e22, 0}},
                  .value = {1 - 0.70710678}}) == "");
  CHECK(wrong_at({.function = [](Graph&, const Values& in) { return stddev(in[0]); },
                  .operands = {{1e20, -1e20, 0}},
                  .value = {1e20},
                  .gradients = {{0.5, -0.5, 0}}}) == "");
}

TEST_CASE("norms over the last dimension of large numbers") {
  const auto large = Corner{.function = {},
                            .operands = {{{1e20, 2e20, 3e20, -2e20}, {1, 4}}},
                            .value = {},
                            .gradients = {}};
  Corner by_root = large;
  by_root.function = [](Graph&, const Values& in) { return in[0].through(rms_norm()); };
  by_root.value = {0.47140452, 0.94280904, 1.41421356, -0.94280904};
  CHECK(wrong_at(by_root) == "");
  Corner by_mean = large;
  by_mean.function = [](Graph&, const Values& in) { return in[0].through(layer_norm()); };
  by_mean.value = {0, 0.53452248, 1.06904497, -1.60356745};
  by_mean.tolerance = 1e-5;
  CHECK(wrong_at(by_mean) == "");
}

TEST_CASE("a mean square of 1e20 has no place in f32") {
  CHECK(wrong_at({.function =
                      [](Graph& g, const Values& in) {
                        return mse_loss(in[0], g.constant({0, 0}, {f32, {2}}));
                      },
                  .operands = {{1e20, 1e20}},
                  .value = {kInfinity},
                  .gradients = {{1e20, 1e20}}}) == "");
}

TEST_CASE("clipping a large gradient by its norm keeps the step") {
  for (const Target& target : {cpu_replay(), tests::device_of_host()}) {
    Graph g("clip");
    const Value w = g.parameter("w", {f32, {2}}, zeros());
    const Value slope = g.input("slope", f32, {2});
    g.output("norm", g.gradient_norm());
    g.minimize(sum(w * slope), Sgd{.lr = 0.5, .clip_norm = 1.0});
    Executable step = compile(g, target, tests::plain_options());
    step.run({{slope, at::tensor({3e20F, 4e20F})}});
    CHECK(tests::differences("w", step.get("w"), {-0.3, -0.4}, 1e-6) == "");
    CHECK(step.read("norm").item<double>() == doctest::Approx(5e20));
    step.run({{slope, at::tensor({3e-30F, 4e-30F})}});
    CHECK(step.read("norm").item<double>() == doctest::Approx(5e-30));
  }
}

}  // namespace
}  // namespace metronome::ranges_test
