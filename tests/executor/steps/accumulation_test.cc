// Gradients of several replays that are one update's.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::accumulation_test {
namespace {

using tests::error_of;
using tests::OnEveryTarget;
using tests::plain_options;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Target> all_targets() {
  return {cpu_replay(), stepwise(), eager(), tests::device_of_host()};
}

at::Tensor rows(std::int64_t first, std::int64_t count) {
  const at::Tensor n = at::arange(count * 3, at::TensorOptions(at::kDouble)) + first * 3.0;
  return at::sin(n * 0.7).reshape({count, 3});
}

struct Net {
  Graph g{"net"};
  Value x, y;
  Objective objective;

  Net(std::int64_t rows, const ObjectiveOptions& options, Optimizer optimizer = Adam{.lr = 0.05}) {
    x = g.input("x", f64, {rows, 3});
    y = x.through(linear(4)).through(metronome::tanh).through(linear(1));
    objective = g.minimize(mean(square(y - 0.25)), std::move(optimizer), options);
    g.average("**", {.decay = 0.9});
  }
};

void check_equal(Executable& one, Executable& other, double tolerance) {
  for (const DeclaredParameter& p :
       {DeclaredParameter{"linear/weight", {}}, DeclaredParameter{"linear/bias", {}},
        DeclaredParameter{"linear_1/weight", {}}}) {
    for (const std::string& path :
         {p.path, "average/ema/" + p.path, "optimizer/exp_avg/" + p.path}) {
      CAPTURE(path);
      CHECK(at::allclose(one.get(path), other.get(path), tolerance, tolerance));
    }
  }
}

TEST_CASE("three batches of four rows make the update of one batch of twelve") {
  for (const Target& target : all_targets()) {
    // Clipped, with a schedule: both go by updates.
    const Optimizer optimizer = Adam{.lr = Cosine{.lr = 0.05, .steps = 6}, .clip_norm = 0.1};
    const Net parts(4, {.accumulate = 3}, optimizer), whole(12, {}, optimizer);
    Executable few = compile(parts.g, target, plain_options());
    Executable all = compile(whole.g, target, plain_options());
    for (const std::string& path : all.storages()) few.set(path, all.get(path));
    for (int update = 0; update < 4; ++update) {
      CAPTURE(update);
      for (int part = 0; part < 3; ++part) {
        CHECK(few.updates() == update);
        few.run({{parts.x, rows(update * 12 + part * 4, 4)}});
      }
      all.run({{whole.x, rows(update * 12, 12)}});
      check_equal(few, all, 1e-10);
    }
    CHECK(few.updates() == 4);
    CHECK(few.replays() == 12);
    CHECK(few.get("gathered").item<std::int64_t>() == 12);
  }
}

TEST_CASE("batches of unequal counts, by their weights") {
  for (const Target& target : all_targets()) {
    // Rows that count are those whose mask is 1; the loss of a batch is the mean over these.
    const auto declare = [](Graph& g, std::int64_t rows, std::int64_t accumulate) {
      const Value x = g.input("x", f64, {rows, 3}), mask = g.input("mask", f64, {rows});
      const Value y = x.through(linear(1)).reshape({rows});
      const Value count = sum(mask);
      ObjectiveOptions options{.accumulate = accumulate};
      if (accumulate > 1) options.weight = count;
      g.minimize(sum(square(y - 1.0) * mask) / count, Sgd{.lr = 0.3}, options);
    };
    Graph parts("parts"), whole("whole");
    declare(parts, 4, 2);
    declare(whole, 8, 1);
    Executable few = compile(parts, target, plain_options());
    Executable all = compile(whole, target, plain_options());
    for (const std::string& path : all.storages()) few.set(path, all.get(path));
    const at::Tensor mask = at::tensor({1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0}, at::kDouble);
    for (int update = 0; update < 3; ++update) {
      for (int part = 0; part < 2; ++part) {
        few.run({{"x", rows(update * 8 + part * 4, 4)},
                 {"mask", mask.slice(0, part * 4, part * 4 + 4)}});
      }
      all.run({{"x", rows(update * 8, 8)}, {"mask", mask}});
      CHECK(at::allclose(few.get("linear/weight"), all.get("linear/weight"), 1e-10, 1e-12));
    }
  }
}

TEST_CASE("a replay of weight 0 counts for nothing, whatever its gradient is") {
  for (const Target& target : all_targets()) {
    for (const bool first : {true, false}) {
      Graph g("empty");
      const Value slope = g.input("slope", f64, {}), count = g.input("count", f64, {});
      g.minimize(g.parameter("a", {f64, {}}, constant(0)) * slope, Sgd{.lr = 1},
                 {.accumulate = 2, .weight = count});
      Executable step = compile(g, target, plain_options());
      for (const bool empty : {first, !first}) {
        step.run({{"slope", at::full({}, empty ? std::nan("") : 3.0, at::kDouble)},
                  {"count", at::full({}, empty ? 0.0 : 5.0, at::kDouble)}});
      }
      CHECK(step.get("a").item<double>() == -3);
    }
  }
}

TEST_CASE("a replay that is left out adds nothing, and does not count") {
  for (const Target& target : all_targets()) {
    Graph g("left out");
    const Value decides = g.input("decides", bool_, {}), slope = g.input("slope", f64, {});
    const Value a = g.parameter("a", {f64, {}}, constant(0));
    g.minimize(a * slope, Sgd{.lr = 1}, {.when = decides, .accumulate = 2});
    Executable step = compile(g, target, plain_options());
    const auto run = [&](bool decision, double slope) {
      step.run({{"decides", at::full({}, decision, at::TensorOptions(at::kBool))},
                {"slope", at::full({}, slope, at::kDouble)}});
      return step.get("a").item<double>();
    };
    CHECK(run(true, 1) == 0);
    CHECK(run(false, 100) == 0);
    CHECK(run(true, 3) == -2);
    CHECK(run(true, 5) == -2);
    CHECK(run(false, 100) == -2);
    CHECK(run(true, 7) == -8);
    CHECK(step.updates() == 2);
  }
}

TEST_CASE("a mean that is not finite is left out, and the next one begins anew") {
  for (const Target& target : all_targets()) {
    Graph g("finite");
    const Value slope = g.input("slope", f64, {});
    const Value a = g.parameter("a", {f64, {}}, constant(0));
    const Objective walk =
        g.minimize(a * slope, Sgd{.lr = 1}, {.skip_not_finite = true, .accumulate = 2});
    const Value norm = walk.gradient_norm();
    Executable step = compile(g, target, plain_options());
    const auto run = [&](double slope) {
      step.run({{"slope", at::full({}, slope, at::kDouble)}});
      return step.get("a").item<double>();
    };
    run(kInfinity);
    CHECK(run(1) == 0);
    CHECK(step.updates() == 0);
    run(2);
    CHECK(step.read_scalar(norm) == 2);
    CHECK(run(4) == -3);
    CHECK(step.read_scalar(norm) == 3);
    run(std::nan(""));
    CHECK(run(1) == -3);
    run(1);
    CHECK(run(1) == -4);
  }
}

TEST_CASE("replay as stepwise to the bit, near eager; on from the middle") {
  const Net net(4, {.accumulate = 3});
  OnEveryTarget runs(net.g);
  for (int step = 0; step < 10; ++step) runs.run({{net.x, rows(step * 4, 4)}});
  for (const Target& target : all_targets()) {
    Executable whole = compile(net.g, target, plain_options());
    for (int step = 0; step < 4; ++step) whole.run({{net.x, rows(step * 4, 4)}});
    Executable other = compile(net.g, target, plain_options());
    other.load(whole.snapshot());
    for (int step = 4; step < 9; ++step) {
      for (Executable* e : {&whole, &other}) e->run({{net.x, rows(step * 4, 4)}});
    }
    for (const std::string& path : whole.storages()) {
      CAPTURE(path);
      CHECK(at::equal(whole.get(path), other.get(path)));
    }
  }
}

std::string refusal(const std::function<void(Graph&, Value, ObjectiveOptions&)>& set,
                    Optimizer optimizer = Sgd{}) {
  Graph g("refused");
  const Value x = g.input("x", f64, {2}, {"net.cc", 1});
  const Value loss =
      mean(square(x * g.parameter("w", {f64, {2}}, ones())), {}, false, {"net.cc", 3});
  ObjectiveOptions options;
  set(g, x, options);
  g.minimize(loss, std::move(optimizer), options, {"net.cc", 9});
  const std::string text = error_of<GraphError>([&] { g.validate(); });
  const std::string head =
      "net.cc:9: minimize cannot take the loss\n  operand 0  f64[]  \"mean\"  net.cc:3\n";
  return text.starts_with(head) ? text.substr(head.size()) : text;
}

TEST_CASE("options that are refused") {
  CHECK(refusal([](Graph&, Value, ObjectiveOptions& o) { o.accumulate = 0; }) ==
        "  requires   an accumulate of 1 or more, but 0");
  CHECK(refusal([](Graph&, Value, ObjectiveOptions& o) { o.accumulate = 2, o.every = 3; }) ==
        "  requires   an every or an accumulate above 1, but both are, 3 and 2");
  CHECK(refusal([](Graph&, Value x, ObjectiveOptions& o) { o.weight = mean(x); }) ==
        "  requires   an accumulate above 1, where replays have weights, but 1\n"
        "  way out    leave the weight out: one replay is its own mean");
  CHECK(refusal([](Graph&, Value x, ObjectiveOptions& o) { o.accumulate = 2, o.weight = x; }) ==
        "  requires   a weight f32[] or f64[], but f64[2]\n"
        "  way out    cast it, or sum it: .weight = mt::sum(counts).cast(mt::f32)");
  CHECK(refusal([](Graph&, Value, ObjectiveOptions& o) { o.accumulate = 2; }, Adam{.lazy = true}) ==
        "  requires   an optimizer that is not lazy where gradients are accumulated, as their mean "
        "is of all rows of a table\n"
        "  way out    leave out .lazy, or .accumulate");
}

}  // namespace
}  // namespace metronome::accumulation_test
