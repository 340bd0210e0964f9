// Distributions: each density sums to 1, entropies and divergences are the means of its logarithm
// over its own draws, and illegal classes spoil nothing.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "ops/losses/distributions.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::distributions_test {
namespace {

using namespace distributions;
using tests::error_of;
using tests::plain_options;

constexpr std::int64_t kMany = 40000;

CompileOptions evaluates() {
  CompileOptions options = plain_options();
  options.seed = 11;
  options.modes = {Mode::evaluate};
  return options;
}

std::vector<at::Tensor> computed(const std::function<Values(Graph&)>& declare) {
  Graph g("computed");
  const Values all = declare(g);
  for (std::size_t i = 0; i < all.size(); ++i) {
    g.output("v" + std::to_string(i), all[i].cast(f64));
  }
  Executable e = compile(g, cpu_replay(), evaluates());
  e.evaluate({});
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < all.size(); ++i) {
    results.push_back(e.read("v" + std::to_string(i)).clone());
  }
  return results;
}

/// The mean of draws lies within four of its deviations of what is expected.
void check_mean(const at::Tensor& draws, const at::Tensor& expected) {
  const at::Tensor deviation = draws.std(0) / std::sqrt(static_cast<double>(draws.size(0)));
  CHECK(((draws.mean(0) - expected).abs() <= 4 * deviation + 1e-9).all().item<bool>());
}

Value row(Graph& g, const std::vector<double>& numbers) {
  return g.constant(numbers, {f64, {1, static_cast<std::int64_t>(numbers.size())}});
}
/// Rows that are all the same, for as many draws.
Value rows(Graph& g, const std::vector<double>& numbers) {
  return row(g, numbers) + 0.0 * rand(g.seed(), "rows", {f64, {kMany, 1}});
}

TEST_CASE("normal: density, entropy, divergence") {
  const auto v = computed([](Graph& g) -> Values {
    const Normal p{rows(g, {0.3, -1}), row(g, {0.5, 2})}, q{row(g, {0, 1}), row(g, {1, 1.5})};
    const Value x = p.rsample("x");
    return {p.log_prob(x), q.log_prob(x), p.entropy(), kl_divergence(p, q), x};
  });
  check_mean(-v[0], v[2][0]);
  check_mean(v[0] - v[1], v[3][0]);
  check_mean(v[4], at::tensor({0.3, -1.0}, at::kDouble));
  const double x = v[4][5][1].item<double>();
  CHECK(v[0][5][1].item<double>() ==
        doctest::Approx(-0.5 * (x + 1) * (x + 1) / 4 - std::log(2 * std::sqrt(2 * M_PI))));
}

TEST_CASE("diagonal and squashed normal: over the last axis") {
  const auto v = computed([](Graph& g) -> Values {
    const DiagonalNormal p{rows(g, {0.3, -1}), row(g, {0.5, 2})},
        q{row(g, {0, 1}), row(g, {1, 1.5})};
    const Value x = p.sample("x");
    const SquashedNormal squashed{rows(g, {0.3, -0.2}), row(g, {0.5, 0.7})};
    const Draw drawn = squashed.rsample("action");
    return {p.log_prob(x),
            q.log_prob(x),
            p.entropy(),
            kl_divergence(p, q),
            drawn.value,
            drawn.log_prob,
            squashed.log_prob(drawn.value)};
  });
  CHECK(v[0].sizes() == at::IntArrayRef({kMany}));
  check_mean(-v[0], v[2][0]);
  check_mean(v[0] - v[1], v[3][0]);
  CHECK(v[4].abs().max().item<double>() < 1);
  CHECK(at::allclose(v[5], v[6], 1e-7, 1e-7));
}

TEST_CASE("the density of a squashed normal sums to 1") {
  constexpr std::int64_t kPoints = 20000;
  const auto v = computed([](Graph& g) -> Values {
    std::vector<double> points(kPoints);
    for (std::int64_t i = 0; i < kPoints; ++i) points[i] = (i + 0.5) / kPoints * 2 - 1;
    const Value x = g.constant(points, {f64, {kPoints, 1}});
    return {exp(SquashedNormal{row(g, {0.4}), row(g, {0.6})}.log_prob(x))};
  });
  CHECK(v[0].sum().item<double>() * 2 / kPoints == doctest::Approx(1).epsilon(1e-4));
}

TEST_CASE("squashed normal far from 0: its logarithms stay finite") {
  for (const Element element : {f32, f64}) {
    const auto v = computed([&](Graph& g) -> Values {
      const SquashedNormal far{row(g, {40}).cast(element), row(g, {1}).cast(element)};
      const Draw drawn = far.rsample("x");
      return {drawn.value, drawn.log_prob};
    });
    CHECK(v[0].item<double>() == 1);
    CHECK(std::isfinite(v[1].item<double>()));
  }
}

TEST_CASE("categorical, with illegal classes") {
  const auto v = computed([](Graph& g) -> Values {
    const Value mask = row(g, {1, 1, 0, 1}) > 0.5;
    const Categorical p{rows(g, {0.5, -1, 30, 2}), mask}, q{rows(g, {0, 0, 0, 0})};
    const Value x = p.sample("x");
    return {p.log_prob(x), q.log_prob(x), p.entropy(), kl_divergence(p, q), x, p.probs()};
  });
  check_mean(-v[0], v[2][0]);
  check_mean(v[0] - v[1], v[3][0]);
  CHECK(v[4].ne(2).all().item<bool>());
  const at::Tensor expected = at::tensor({0.5, -1.0, 2.0}, at::kDouble).softmax(0);
  CHECK(at::allclose(v[5][0].index_select(0, at::tensor({0, 1, 3}, at::kLong)), expected));
  CHECK(v[5][0][2].item<double>() == 0);
  for (int k = 0; k < 4; ++k) {
    if (k != 2) check_mean(v[4].eq(k).to(at::kDouble), v[5][0][k]);
  }
}

TEST_CASE("Bernoulli") {
  const auto v = computed([](Graph& g) -> Values {
    const Bernoulli p{rows(g, {0.5, -2})}, q{row(g, {0, 1})};
    const Value x = p.sample("x");
    return {p.log_prob(x), q.log_prob(x), p.entropy(), kl_divergence(p, q), x};
  });
  check_mean(-v[0], v[2][0]);
  check_mean(v[0] - v[1], v[3][0]);
  check_mean(v[4], at::tensor({0.5, -2.0}, at::kDouble).sigmoid());
}

TEST_CASE("a policy gradient with illegal classes has no NaN, on every target") {
  Graph g("policy");
  const Value x = g.input("x", f64, {4, 3}), gain = g.input("gain", f64, {4});
  const Value mask = g.input("mask", bool_, {4, 5});
  const Categorical policy{x.through(linear(5)), mask};
  const Value action = policy.sample("action");
  g.minimize(-mean(policy.log_prob(action) * gain) - 0.1 * mean(policy.entropy()),
             Adam{.lr = 0.05});
  tests::OnEveryTarget runs(g);
  const at::Tensor n = at::arange(12, at::kDouble);
  const at::Tensor legal =
      at::tensor({1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1}, at::kInt)
          .to(at::kBool)
          .reshape({4, 5});
  for (int step = 0; step < 10; ++step) {
    runs.run({{x, (n * 0.7 + step).sin().reshape({4, 3})},
              {gain, at::ones({4}, at::kDouble)},
              {mask, legal}});
  }
  CHECK(runs.replay().get("linear/weight").isfinite().all().item<bool>());
}

TEST_CASE("certain bits and far numbers: no NaN, in values or gradients") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Graph g("certain");
  const Value logits = g.input("logits", f64, {2}), value = g.input("value", f64, {2});
  const Value w = g.parameter("w", {f64, {2}}, ones());
  const Bernoulli p{logits * w};
  g.output("entropy", p.entropy());
  g.output("log_prob", p.log_prob(value));
  g.output("kl", kl_divergence(p, p));
  g.minimize(sum(p.entropy() + p.log_prob(value) + kl_divergence(p, p)), Sgd{.lr = 0.1});
  Executable e = compile(g, cpu_replay(), plain_options());
  e.run({{"logits", at::tensor({-kInfinity, 0.0}, at::kDouble)},
         {"value", at::tensor({0.0, 1.0}, at::kDouble)}});
  CHECK(at::allclose(e.read("entropy"), at::tensor({0.0, std::log(2)}, at::kDouble)));
  CHECK(at::allclose(e.read("log_prob"), at::tensor({0.0, -std::log(2)}, at::kDouble)));
  const auto v = computed([](Graph& g) -> Values {
    const Value thin = row(g, {1e-23}).cast(f32), wide = row(g, {1}).cast(f32);
    const SquashedNormal squashed{row(g, {40}).cast(f32), wide};
    return {kl_divergence(Normal{thin * 0.0, thin}, Normal{wide * 0.0, wide}),
            squashed.log_prob(squashed.rsample("x").value)};
  });
  CHECK(v[0].item<double>() == doctest::Approx(-0.5 - std::log(1e-23)));
  CHECK(std::isfinite(v[1].item<double>()));
}

TEST_CASE("a divergence of distributions with equal masks: no NaN, nor a fault, on any target") {
  CompileOptions watched = plain_options();
  watched.watch = true;
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph g("masked");
    const Value w = g.parameter("w", {f64, {1, 4}}, ones());
    const Value mask = row(g, {1, 1, 0, 1}) > 0.5;
    const Categorical p{row(g, {1, 2, 3, 4}) * w, mask}, q{w * 0.5, mask};
    const Value index = multinomial(row(g, {1, 0, 2, 3}), 2, "index");
    g.output("index", index);
    g.minimize(sum(kl_divergence(p, q)), Sgd{.lr = 0.1});
    Executable e = compile(g, target, watched);
    e.run({});
    CHECK(e.get("w").isfinite().all().item<bool>());
    CHECK_FALSE(e.fault().has_value());
    CHECK(e.read("index").ne(1).all().item<bool>());
  }
}

TEST_CASE("what is refused") {
  const auto refusal = [](const std::function<void(Graph&)>& declare) {
    Graph g("refused");
    declare(g);
    return error_of<GraphError>([&] { g.validate(); });
  };
  const Line at{"net.cc", 3};
  CHECK(refusal([&](Graph& g) {
          Categorical{g.input("x", f32, {2, 3}, at)}.log_prob(g.input("i", i64, {3}, at), at);
        }).find("requires   indices of i32 or i64 for each row of f32[2, 3], but i64[3]") !=
        std::string::npos);
  CHECK(refusal([&](Graph& g) {
          const Value x = g.input("x", f32, {2, 3}, at);
          Categorical{x, x}.entropy(at);
        }).find("requires   a mask of bool, but f32[2, 3]") != std::string::npos);
  CHECK(refusal([&](Graph& g) {
          Categorical{g.input("x", f32, {1, 3}, at), g.input("m", bool_, {4, 3}, at)}.sample(
              "s", {}, at);
        }).find("requires   a mask that broadcasts to the logits, [1, 3], but [4, 3]") !=
        std::string::npos);
  CHECK(refusal([&](Graph& g) {
          Normal{g.input("m", f32, {2}, at), g.input("s", f32, {3}, at)}.rsample("x", {}, at);
        }).starts_with("net.cc:3: "));
  CHECK(refusal([&](Graph& g) {
          Normal{g.input("x", i64, {2}, at), g.input("s", f32, {2}, at)}.entropy(at);
        }).find("normal_entropy cannot be computed") != std::string::npos);
}

}  // namespace
}  // namespace metronome::distributions_test
