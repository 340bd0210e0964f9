// Loops and branches that data decide: the same by every executor, and what is skipped is skipped.
#include <array>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace control_test {
namespace {

namespace mt = metronome;
using namespace metronome;

at::Tensor vector_of(std::vector<double> numbers) {
  return at::tensor(numbers, at::TensorOptions(at::kDouble));
}

/// A layer that counts how often it runs, in a buffer "count" of its scope.
Layer counted(std::string name, Layer layer) {
  return [=](Value x) {
    return x.scope(name, [&](Value y) {
      const Buffer count = make_buffer(y.emitter(), "count", {i64, {}}, {}, Line::here());
      assign(y.emitter(), count, count.value + 1.0, Line::here());
      return y.through(layer);
    });
  };
}

struct Runs {
  explicit Runs(const Graph& graph) {
    CompileOptions options;
    options.threads = 1;
    options.tune = Tune::off;
    for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
      executables.push_back(compile(graph, target, options));
    }
    options.poison = true;
    executables.push_back(compile(graph, cpu_replay(), options));
  }
  void step(const std::vector<std::pair<Value, at::Tensor>>& feeds) {
    for (Executable& e : executables) {
      std::vector<Feed> all;
      for (const auto& [value, tensor] : feeds) all.push_back({value, tensor});
      e.run(all);
    }
  }
  /// Replay and stepwise agree to the bit, eager within 1e-12.
  void check_storages() {
    for (const std::string& path : executables[0].storages()) {
      CAPTURE(path);
      const at::Tensor replayed = executables[0].get(path);
      CHECK(at::equal(replayed, executables[1].get(path)));
      CHECK(at::equal(replayed, executables[3].get(path)));
      const auto distance = (replayed - executables[2].get(path)).abs().max().item<double>();
      CHECK(distance <= 1e-12);
    }
  }
  std::vector<Executable> executables;
};

TEST_CASE("until: the body runs, then halt is asked; gradients flow through what ran") {
  Graph g("until");
  const Value x = g.input("x", f64, {3});
  const auto body = counted("body", [](Value h) {
    return h * make_parameter(h.emitter(), "scale", {f64, {3}}, mt::constant(1.5), Line::here());
  });
  const Value y = x.loop(body).until([](Value h) { return sum(h) > 100.0; }, 6);
  g.output("y", y);
  const Value count = iterations(y);
  g.output("iterations", count);
  g.minimize(mean(y), Sgd{.lr = 1e-3});
  Runs runs(g);
  int expected_total = 0;
  for (const double start : {0.1, 60.0, 200.0, 20.0, 1.0}) {
    runs.step({{x, vector_of({start, start, start})}});
    for (Executable& e : runs.executables) {
      CHECK(e.read_scalar(count) == runs.executables[2].read_scalar(count));
    }
    expected_total += static_cast<int>(runs.executables[2].read_scalar(count));
    runs.check_storages();
  }
  CHECK(expected_total == 6 + 1 + 1 + 2 + 6);
  CHECK(runs.executables[0].get("loop/body/count").item<std::int64_t>() == expected_total);
}

TEST_CASE("while_true: the condition is asked, then the body runs, perhaps never") {
  Graph g("while");
  const Value x = g.input("x", f64, {2});
  const auto body = [](Value h) { return h.through(linear(2)); };
  const Value y = x.loop(body).while_true([](Value h) { return sum(h) < 3.0; }, 4);
  const Value count = iterations(y);
  g.output("iterations", count);
  g.output("y", y);
  g.minimize(mean(y), Adam{.lr = 1e-2});
  Runs runs(g);
  for (const double start : {5.0, 0.2, 1.0}) {
    runs.step({{x, vector_of({start, start})}});
    for (Executable& e : runs.executables) {
      CHECK(e.read_scalar(count) == runs.executables[2].read_scalar(count));
    }
    runs.check_storages();
  }
}

TEST_CASE("the number of an iteration: a schedule over a loop that data end") {
  // x / 1, then / 2, ... until it is below 1: one set of weights, of one begin at 1.
  Graph g("numbers");
  const Value x = g.input("x", f64, {2});
  const auto body = [](Value h, int k) {
    const Value one = make_parameter(h.emitter(), "one", {f64, {2}}, mt::constant(1), Line::here());
    return h * one / (k + 1.0);
  };
  const auto small = [](Value h, int k) { return k == 3 ? max(h) < 100.0 : max(h) < 1.0; };
  const Value y = x.loop(body).until(small, 6), count = iterations(y);
  const Value fixed = x.loop(body).times(4);
  g.output("iterations", count);
  g.output("y", y);
  g.output("fixed", fixed);
  g.minimize(mean(y) + mean(fixed), Sgd{.lr = 0});
  Runs runs(g);
  const std::vector<std::array<double, 3>> cases = {{0.5, 0.5, 1}, {1.5, 0.75, 2}, {30, 1.25, 4}};
  for (const auto& [start, left, ran] : cases) {
    runs.step({{x, vector_of({start, start / 2})}});
    runs.check_storages();
    for (Executable& e : runs.executables) {
      CHECK(e.read_scalar(count) == ran);
      CHECK(e.read(y)[0].item<double>() == left);
      CHECK(e.read(fixed)[0].item<double>() == doctest::Approx(start / 24));
    }
  }
}

TEST_CASE("choose: one branch runs; a selector out of range is clamped and reported") {
  Graph g("choose");
  const Value x = g.input("x", f64, {4});
  const Value which = g.input("which", i32, {});
  const auto branch = [](int i) {
    return counted("branch" + std::to_string(i), [i](Value h) {
      Value y = h;
      for (int k = 0; k <= i; ++k) y = y.through(linear(4)).through(mt::tanh);
      return y;
    });
  };
  const Value y = x.choose(which, Layers(branch, 3)) + x;
  g.output("y", y);
  g.minimize(mean(square(y)), Adam{.lr = 1e-2});
  Runs runs(g);
  const auto select = [&](int i) {
    runs.step(
        {{x, vector_of({1, -2, 3, 0.5})}, {which, at::full({}, i, at::TensorOptions(at::kInt))}});
  };
  for (const int i : {0, 2, 1, 2}) select(i);
  runs.check_storages();
  for (const Executable& e : runs.executables) CHECK_FALSE(e.fault().has_value());
  select(7);
  select(-3);
  runs.check_storages();
  const std::vector<int> counts = {2, 1, 3};
  for (int i = 0; i < 3; ++i) {
    const std::string path =
        "choose/" + std::to_string(i) + "/branch" + std::to_string(i) + "/count";
    CHECK(runs.executables[0].get(path).item<std::int64_t>() == counts[i]);
  }
  for (const Executable& e : runs.executables) {
    REQUIRE(e.fault().has_value());
    CHECK(e.fault()->starts_with("guard {when=0 of 3} \"choose/guard\" ("));
    CHECK(e.fault()->ends_with("): selector 7 is out of range 0 to 2"));
  }
}

TEST_CASE("choose of several values: each result is the branch's that ran, with its gradient") {
  Graph g("several");
  const Value x = g.input("x", f64, {3});
  const Value first = g.input("first", bool_, {});
  const Value a = make_parameter(x.emitter(), "a", {f64, {3}}, mt::constant(1.5), Line::here());
  const Value b = make_parameter(x.emitter(), "b", {f64, {}}, mt::constant(-0.5), Line::here());
  const auto product = [](const Values& xs) {
    const Value seen = xs[0].through(counted("product", [](Value h) { return h * 2.0; }));
    return Values{seen * xs[1], sum(xs[1])};
  };
  const auto shift = [&](const Values& xs) {
    return Values{xs[0].through(counted("shift", mt::tanh)) + b, b * 3.0};
  };
  const Values ys = choose({x, a}, first, {product, shift});
  REQUIRE(ys.size() == 2);
  g.output("y", ys[0]);
  g.output("number", ys[1]);
  g.minimize(sum(ys[0]) + ys[1], Sgd{.lr = 0.25});
  Runs runs(g);
  at::Tensor a_now = at::full({3}, 1.5, at::kDouble), b_now = at::full({}, -0.5, at::kDouble);
  int shifts = 0;
  for (const bool shifted : {false, true, true, false}) {
    const at::Tensor numbers = vector_of({0.5, -2, 3});
    runs.step({{x, numbers}, {first, at::full({}, shifted, at::kBool)}});
    runs.check_storages();
    for (const Executable& e : runs.executables) {
      const at::Tensor y = shifted ? numbers.tanh() + b_now : numbers * 2 * a_now;
      CHECK(at::allclose(e.read("y"), y));
      CHECK(at::allclose(e.read("number"), shifted ? b_now * 3 : a_now.sum()));
    }
    shifts += shifted;
    if (shifted) {
      b_now = b_now - 0.25 * (3 + 3);
    } else {
      a_now = a_now - 0.25 * (2 * numbers + 1);
    }
    CHECK(at::allclose(runs.executables[0].get("a"), a_now));
    CHECK(at::allclose(runs.executables[0].get("b"), b_now));
  }
  CHECK(runs.executables[0].get("choose/1/shift/count").item<std::int64_t>() == shifts);
  CHECK(runs.executables[0].get("choose/0/product/count").item<std::int64_t>() == 4 - shifts);
}

TEST_CASE("decisions that are known when the graph is declared are made as any other") {
  for (const int chosen : {0, 1, 2}) {
    for (const bool halts : {false, true}) {
      CAPTURE(chosen);
      CAPTURE(halts);
      Graph g("known");
      const Value x = g.input("x", f64, {2});
      const auto branch = [](int i) { return Layer([i](Value h) { return h * (i + 2.0); }); };
      const auto halt = [&](Value) { return g.constant(halts, i32) > 0; };
      const Value y = x.choose(g.constant(chosen, i64), Layers(branch, 3));
      g.output("y", y.loop([](Value h) { return h * 10.0; }).until(halt, 3));
      Runs runs(g);
      runs.step({{x, vector_of({1, -2})}});
      const double factor = (chosen + 2) * (halts ? 10 : 1000);
      for (Executable& e : runs.executables) {
        CHECK(e.read("y").equal(vector_of({factor, -2 * factor})));
      }
    }
  }
}

TEST_CASE("a loop inside of a branch inside of a loop") {
  Graph g("nested");
  const Value x = g.input("x", f64, {3});
  const auto inner = [](Value h) {
    return h.loop([](Value v) { return v.through(linear(3)).through(mt::tanh) + v; })
        .until([](Value v) { return mean(v) > 0.4; }, 3);
  };
  const auto body = [&](Value h) {
    return h.choose([](Value v) { return sum(v) > 1.0; },
                    {inner, [](Value v) { return v.through(linear(3)) * 0.5; }});
  };
  const Value y = x.loop(body).until([](Value h) { return mean(mt::abs(h)) > 0.9; }, 4);
  g.minimize(mean(square(y)), Adam{.lr = 1e-2});
  Runs runs(g);
  for (const double start : {0.1, 1.0, -2.0, 0.6, 0.3, -0.2}) {
    runs.step({{x, vector_of({start, -start, start / 2})}});
    runs.check_storages();
  }
}

TEST_CASE("a parameter in a branch that the one around it excludes is not trained") {
  Graph g("excluded");
  const Value x = g.input("x", f64, {3});
  const Value which = g.input("which", i32, {});
  const Layer never = [=](Value h) {  // it would take 0 and 1 at once
    return h.choose(
        which, {[](Value v) { return v.through(linear(3)); }, [](Value v) { return v * 2.0; }});
  };
  const Value y = x.choose(which, {[](Value v) { return v * 0.5; }, never});
  g.minimize(mean(square(y.through(linear(1)))), Adam{.lr = 1e-2, .weight_decay = 0.1});
  Runs runs(g);
  for (const int i : {0, 1, 1}) {
    runs.step({{x, vector_of({1, -2, 3})}, {which, at::full({}, i, at::kInt)}});
    runs.check_storages();
  }
  for (const Executable& e : runs.executables) {
    CHECK(e.report().unreached == std::vector<std::string>{"choose/1/choose/0/linear/weight",
                                                           "choose/1/choose/0/linear/bias"});
  }
}

TEST_CASE("a loop carries several values, one of them a halting probability that is trained") {
  Graph g("ponder");
  const Value x = g.input("x", f64, {2, 3});
  const Value one = g.constant({0, 0}, {f64, {2, 1}});
  const Value none = g.constant({0, 0, 0, 0, 0, 0}, {f64, {2, 3}});
  const Values result = loop({x, none, one}, [](const Values& s) {
                          const Value h = s[0].through(linear(3)).through(mt::tanh);
                          const Value p = sigmoid(h.through(linear(1)));
                          const Value share = minimum(p, 1.0 - s[2]);
                          return Values{h, s[1] + share * h, s[2] + share};
                        }).until([](const Values& s) { return min(s[2]) > 0.99; }, 5);
  g.minimize(mean(square(result[1])) + 0.01 * mean(result[2]), Adam{.lr = 1e-1});
  const Value count = iterations(result[0]);
  g.output("iterations", count);
  Runs runs(g);
  for (int step = 0; step < 5; ++step) {
    runs.step({{x, vector_of({1, 2, 3, -1, 0.5, 2}).reshape({2, 3})}});
    CHECK(runs.executables[0].read_scalar(count) == runs.executables[2].read_scalar(count));
    runs.check_storages();
  }
}

}  // namespace

}  // namespace control_test
