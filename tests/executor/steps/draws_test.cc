// Random numbers drawn inside a step: their distributions, when they are new, and that all targets
// draw the same.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "ops/kernel/draws.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::draws_test {
namespace {

using tests::error_of;
using tests::plain_options;

constexpr std::int64_t kMany = 100000;

CompileOptions seeded(std::uint64_t seed, std::vector<Mode> modes = {Mode::evaluate}) {
  CompileOptions options = plain_options();
  options.seed = seed;
  options.modes = std::move(modes);
  return options;
}

/// The draws of an evaluation, as f64.
at::Tensor drawn(const std::function<Value(Graph&)>& declare, std::uint64_t seed = 7,
                 const Target& target = cpu_replay()) {
  Graph g("drawn");
  g.output("y", declare(g));
  Executable e = compile(g, target, seeded(seed));
  e.evaluate({});
  return e.read("y").to(at::kDouble);
}

double normal_below(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }

/// The largest distance of the draws' distribution from the one that is given, times sqrt(n): above
/// 1.95 in one of a thousand seeds (Kolmogorov and Smirnov).
double distance(const at::Tensor& draws, const std::function<double(double)>& below) {
  const at::Tensor sorted = std::get<0>(draws.reshape({-1}).sort());
  const double* x = sorted.data_ptr<double>();
  const auto n = static_cast<double>(sorted.numel());
  double most = 0;
  for (std::int64_t i = 0; i < sorted.numel(); ++i) {
    const double is = below(x[i]), i0 = static_cast<double>(i);
    most = std::max({most, is - i0 / n, (i0 + 1) / n - is});
  }
  return most * std::sqrt(n);
}

TEST_CASE("distributions, by their moments and by Kolmogorov and Smirnov") {
  for (const Element element : {f32, f64}) {
    const Type type{element, {kMany}};
    const at::Tensor u = drawn([&](Graph& g) { return rand(g.seed(), "u", type); });
    CHECK(u.min().item<double>() >= 0);
    CHECK(u.max().item<double>() < 1);
    CHECK(distance(u, [](double x) { return x; }) < 1.95);
    const at::Tensor z = drawn([&](Graph& g) { return randn(g.seed(), "z", type); });
    CHECK(std::abs(z.mean().item<double>()) < 4 / std::sqrt(kMany));
    CHECK(std::abs(z.var().item<double>() - 1) < 4 * std::sqrt(2.0 / kMany));
    CHECK(std::abs(z.pow(4).mean().item<double>() - 3) < 4 * std::sqrt(96.0 / kMany));
    CHECK(distance(z, normal_below) < 1.95);
    const at::Tensor e = drawn([&](Graph& g) { return gumbel(g.seed(), "e", type); });
    CHECK(distance(e, [](double x) { return std::exp(-std::exp(-x)); }) < 1.95);
    const at::Tensor t =
        drawn([&](Graph& g) { return truncated_normal(g.seed(), "t", type, -1, 2.5); });
    CHECK(t.min().item<double>() >= -1 - 1e-6);
    CHECK(t.max().item<double>() <= 2.5 + 1e-6);
    const double low = normal_below(-1), share = normal_below(2.5) - low;
    CHECK(distance(t, [&](double x) { return (normal_below(x) - low) / share; }) < 1.95);
  }
}

TEST_CASE("bernoulli, categorical and multinomial, by chi-square") {
  const at::Tensor b = drawn([](Graph& g) {
    return bernoulli(g.constant(0.3, f32) + rand(g.seed(), "zero", {f32, {kMany}}) * 0.0, "b");
  });
  CHECK(std::abs(b.mean().item<double>() - 0.3) < 4 * std::sqrt(0.21 / kMany));
  CHECK((b.eq(0).sum() + b.eq(1).sum()).item<std::int64_t>() == kMany);
  const std::vector<double> shares = {0.1, 0.2, 0.0, 0.4, 0.3};
  const auto chi_square = [&](const at::Tensor& classes) {
    double sum = 0;
    for (std::size_t k = 0; k < shares.size(); ++k) {
      const double expected = shares[k] * kMany;
      const double found = classes.eq(static_cast<double>(k)).sum().item<double>();
      if (expected == 0) CHECK(found == 0);
      if (expected > 0) sum += (found - expected) * (found - expected) / expected;
    }
    return sum;
  };
  const auto many = [&](Graph& g) {
    return g.constant(shares, {f64, {1, 5}}) + 0.0 * rand(g.seed(), "zero", {f64, {kMany, 1}});
  };
  // A sum of 3 degrees of freedom is above 16.3 in one of a thousand seeds.
  CHECK(chi_square(drawn([&](Graph& g) { return categorical(log(many(g)), "c"); })) < 16.3);
  const at::Tensor both = drawn([&](Graph& g) { return multinomial(many(g), 2, "m"); });
  CHECK(chi_square(both.select(1, 0)) < 16.3);
  CHECK(both.select(1, 0).ne(both.select(1, 1)).all().item<bool>());
  CHECK(both.ne(2).all().item<bool>());
}

TEST_CASE("logits far from 0 are drawn as those near it") {
  for (const double shift : {0.0, 1e7, -1e8}) {
    const at::Tensor c = drawn([=](Graph& g) {
      const Value two = g.constant({shift, shift}, {f32, {1, 2}});
      return categorical(two + 0.0 * rand(g.seed(), "zero", {f32, {kMany, 1}}), "c");
    });
    CHECK(std::abs(c.mean().item<double>() - 0.5) < 4 * 0.5 / std::sqrt(kMany));
  }
}

TEST_CASE("a permutation has each number once, and any of them in any place") {
  const at::Tensor p = drawn([](Graph& g) { return permutation(g.seed(), "p", 1000); });
  CHECK(at::equal(std::get<0>(p.sort()), at::arange(1000, at::kDouble)));
  CHECK_FALSE(at::equal(p, at::arange(1000, at::kDouble)));
  // The place of 0, in 10 parts, over 500 seeds: 9 degrees of freedom.
  std::vector<int> parts(10);
  for (int seed = 0; seed < 500; ++seed) {
    const at::Tensor q = drawn([](Graph& g) { return permutation(g.seed(), "p", 10); }, seed);
    ++parts[static_cast<std::size_t>(q.argmin().item<std::int64_t>())];
  }
  double sum = 0;
  for (const int n : parts) sum += (n - 50.0) * (n - 50.0) / 50;
  CHECK(sum < 27.9);
}

TEST_CASE("all targets draw the same bits") {
  const auto declare = [](Graph& g) {
    Values all;
    for (const Element element : {f32, f64}) {
      const Type type{element, {3, 1001}};
      const std::string of(name_of(element));
      all.push_back(rand(g.seed(), "u" + of, type).cast(f64));
      all.push_back(randn(g.seed(), "z" + of, type).cast(f64));
      all.push_back(gumbel(g.seed(), "e" + of, type).cast(f64));
      all.push_back(truncated_normal(g.seed(), "t" + of, type).cast(f64));
    }
    return concat(all, 0);
  };
  const at::Tensor expected = drawn(declare);
  for (const Target& target : tests::targets()) {
    CHECK(at::equal(drawn(declare, 7, target), expected));
  }
  CHECK_FALSE(at::equal(drawn(declare, 8), expected));
}

TEST_CASE("draws are new in each training step and in each evaluation that advances states") {
  for (const Target& target : tests::targets()) {
    Graph g("steps");
    const Value w = g.parameter("w", {f64, {}}, ones());
    const Value noise = randn(g.seed(), "noise", {f64, {5}});
    g.output("noise", noise);
    g.minimize(mean(square(noise * w)), Sgd{.lr = 0.01});
    Executable e = compile(g, target, seeded(3, {Mode::train, Mode::evaluate, Mode::advance}));
    std::vector<at::Tensor> seen;
    const auto read = [&] { return e.read("noise").clone(); };
    for (int i = 0; i < 3; ++i) e.run({}), seen.push_back(read());
    CHECK(e.get("draws").item<std::int64_t>() == 3);
    e.evaluate({});
    const at::Tensor evaluated = read();
    e.evaluate({});
    CHECK(at::equal(read(), evaluated));
    for (int i = 0; i < 2; ++i) e.evaluate({}, {.states = States::advance}), seen.push_back(read());
    CHECK(at::equal(seen[3], evaluated));
    CHECK(e.get("draws").item<std::int64_t>() == 5);
    for (std::size_t a = 0; a < seen.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) CHECK_FALSE(at::equal(seen[a], seen[b]));
    }
    // Saved and loaded, it goes on where it was.
    Executable other = compile(g, target, seeded(4, {Mode::train, Mode::evaluate, Mode::advance}));
    other.load(e.snapshot());
    for (Executable* each : {&e, &other}) each->run({});
    CHECK(at::equal(e.read("noise"), other.read("noise")));
  }
}

TEST_CASE("a draw before others shifts none, names tell draws apart, and so do loops") {
  const auto of = [](bool before) {
    return drawn([=](Graph& g) {
      const Value x = g.constant(std::vector<double>(8, 0.0), {f64, {2, 4}});
      if (before) {
        g.output("first", rand(g.seed(), "first", {f32, {4}}));
        g.output("second", randn_like(x, "second"));
        g.output("third", categorical(x, "third"));
        g.output("fourth", distributions::Normal{x, exp(x)}.sample("fourth"));
      }
      const Value classes = categorical(x, "classes").cast(f64).reshape({2, 1});
      return concat({rand(g.seed(), "u", {f64, {2, 4}}), randn_like(x, "z"), classes,
                     distributions::Normal{x, exp(x)}.sample("s")},
                    1);
    });
  };
  CHECK(at::equal(of(false), of(true)));
  const at::Tensor two = drawn([](Graph& g) {
    const Type type{f32, {1, 50}};
    Values all = {rand(g.seed(), "a", type), rand(g.seed(), "b", type), rand(g.seed(), "a", type)};
    const Value x = g.constant(0, f32).reshape({1, 1}) + 0.0 * all[0];
    Value y = x.loop([](Value h) { return h + rand_like(h, "a"); }).times(2);
    return concat({all[0], all[1], all[2], y}, 0);
  });
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < a; ++b) CHECK_FALSE(at::equal(two[a], two[b]));
  }
  CHECK(two[3].max().item<double>() > 1);
}

TEST_CASE("scopes whose numbered names meet draw apart") {
  const at::Tensor all = drawn([](Graph& g) {
    const Value x = rand(g.seed(), "zero", {f64, {1, 9}}) * 0.0;
    const auto f = [](Value h) { return h + rand_like(h, "e"); };
    Values rows;
    for (const char* name : {"n_1", "n", "n"}) rows.push_back(x.scope(name, f));
    return concat(rows, 0);
  });
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < a; ++b) CHECK_FALSE(at::equal(all[a], all[b]));
  }
}

TEST_CASE("draws in a region, in a branch that some steps skip") {
  Graph g("regions");
  const Value x = g.input("x", f64, {6});
  const Value w = g.parameter("w", {f64, {6}}, ones());
  const Value y = (x * w).choose(mean(x) > 0.0,
                                 {[](Value h) { return h + randn_like(h, "n"); }, metronome::tanh});
  g.minimize(mean(square(y)), Sgd{.lr = 0.1});
  tests::OnEveryTarget runs(g);
  for (int step = 0; step < 6; ++step) {
    runs.run({{x, at::full({6}, step % 3 - 0.5, at::kDouble)}});
  }
  CHECK(runs.replay().get("draws").item<std::int64_t>() == 6);
}

TEST_CASE("recomputed, a draw is the same") {
  for (const bool again : {false, true}) {
    const auto trained = [](bool again) {
      Graph g("again");
      const Value x = g.input("x", f64, {6, 3});
      const Value h = x.scope("block", [](Value v) {
        return metronome::tanh(v.through(linear(8)) + randn_like(v.through(linear(8)), "n"));
      });
      g.minimize(mean(square(h.through(linear(1)))), Sgd{.lr = 0.1});
      CompileOptions options = plain_options();
      if (again) options.recompute = {"block"};
      Executable e = compile(g, cpu_replay(), options);
      for (int i = 0; i < 3; ++i) e.run({{x, at::ones({6, 3}, at::kDouble)}});
      return e.get("block/linear/weight").clone();
    };
    CHECK(at::equal(trained(again), trained(false)));
  }
}

TEST_CASE("the functions behind it: logarithm and inverse of the normal distribution") {
  double log_off = 0, normal_off = 0;
  for (int i = 1; i < 200000; ++i) {
    const double u = i < 1000 ? std::ldexp(1.0, -i / 20.0 - 1) : i / 200000.0;
    const double log_u = std::log(u), exact = cuda::exact_log(u);
    if (log_u != 0) log_off = std::max(log_off, std::abs(exact - log_u) / std::abs(log_u));
    const double x = cuda::inverse_normal(u);
    const double tail = x < 0 ? u : 1 - u;
    normal_off = std::max(normal_off, std::abs(normal_below(-std::abs(x)) - tail) / tail);
  }
  MESSAGE("relative errors: logarithm ", log_off, ", normal ", normal_off);
  CHECK(log_off < 4e-16);
  CHECK(normal_off < 2e-14);
}

TEST_CASE("what is refused") {
  const auto refusal = [](const std::function<void(Graph&)>& declare) {
    Graph g("refused");
    declare(g);
    return error_of<GraphError>([&] { g.validate(); });
  };
  const Line at{"net.cc", 3};
  CHECK(refusal([&](Graph& g) { rand(g.seed(), "", {f32, {2}}, {}, at); }) ==
        "net.cc:3: rand cannot be computed\n"
        "  operand 0  i64[]  \"seed\"  a counter of the graph\n"
        "  requires   a name of one letter or more without '/', but \"\"");
  CHECK(refusal([&](Graph& g) {
          rand(g.seed(), "u", {i64, {2}}, {}, at);
        }).find("draws of f32 or f64, but i64[2]") != std::string::npos);
  CHECK(refusal([&](Graph& g) {
          truncated_normal(g.seed(), "t", {f32, {2}}, 2, 1, {}, at);
        }).find("deviations from -6 to 6 in order, but 2 and 1") != std::string::npos);
  CHECK(refusal([&](Graph& g) {
          permutation(g.seed(), "p", 0, {}, at);
        }).find("1 element or more, but 0") != std::string::npos);
  CHECK(refusal([&](Graph& g) {
          multinomial(g.input("w", f32, {3}), 4, "m", {}, at);
        }).find("1 to 3 indices, but 4") != std::string::npos);
  CHECK(refusal([&](Graph& g) {
          categorical(g.input("x", f32, {}), "c", {}, at);
        }).find("a last axis of one class or more, but f32[]") != std::string::npos);
  CHECK(refusal([&](Graph& g) {
          g.parameter("draws", {f32, {}}, ones());
          rand(g.seed(), "u", {f32, {2}}, {}, at);
        }).find("the path \"draws\" for the counter of draws, but a parameter has it") !=
        std::string::npos);
}

}  // namespace
}  // namespace metronome::draws_test
