// What one step leaves for the next: states, their initial values, reset and checkpoints; and
// back-propagation through several steps.
#include <fmt/format.h>

#include <cmath>

#include "graph/ir/error.h"
#include "tests/executor/targets.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::feedback_test {
namespace {

using tests::OnEveryTarget;
using tests::plain_options;
using tests::vector_of;

/// A recurrent cell over inputs "x<step>", as the body of `unroll`.
struct Cell {
  Values xs;
  Unrolled operator()(Value h, int step) const {
    const Value old = h.through(linear(3)), in = xs[step].through(linear(3));
    const Value next = tanh(old + in);
    return {next, next.through(linear(2))};
  }
};

Values inputs(Graph& g, int steps) {
  Values xs;
  for (int i = 0; i < steps; ++i) xs.push_back(g.input(fmt::format("x{}", i), f64, {2, 4}));
  return xs;
}

void run(Executable& step, int number) {
  std::vector<Feed> feeds;
  for (int i = 0; i < 3; ++i) {
    feeds.push_back(
        {fmt::format("x{}", i), at::linspace(-1, 1 + number + i, 8, at::kDouble).reshape({2, 4})});
  }
  step.run(feeds);
}

TEST_CASE("unroll equals the graph unrolled by hand, bit for bit") {
  Graph verb("verb");
  const Value h = verb.state("h", {f64, {2, 3}}, constant(0.5));
  const Values ys = verb.unroll(3, h, Cell{inputs(verb, 3)});
  REQUIRE(ys.size() == 3);
  verb.minimize(mean(square(concat(ys, 0))), Adam{.lr = 1e-2});

  Graph hand("hand");
  const Value start = hand.state("h", {f64, {2, 3}}, constant(0.5));
  const Layer recurrent = shared(linear(3)), input = shared(linear(3)), output = shared(linear(2));
  Value carried = start;
  Values outputs;
  for (const Value& x : inputs(hand, 3)) {
    const Value old = carried.through(recurrent), in = x.through(input);
    carried = tanh(old + in);
    outputs.push_back(carried.through(output));
  }
  hand.feed(start, carried);
  hand.minimize(mean(square(concat(outputs, 0))), Adam{.lr = 1e-2});

  Executable a = compile(verb, cpu_replay(), plain_options());
  Executable b = compile(hand, cpu_replay(), plain_options());
  const char* const layers[][2] = {{"unroll/linear", "shared/linear"},
                                   {"unroll/linear_1", "shared_1/linear"},
                                   {"unroll/linear_2", "shared_2/linear"}};
  for (const auto& [of_verb, of_hand] : layers) {
    for (const char* part : {"/weight", "/bias"}) {
      b.set(std::string(of_hand) + part, a.get(std::string(of_verb) + part));
    }
  }
  for (int step = 0; step < 3; ++step) {
    run(a, step), run(b, step);
    CHECK(a.read_scalar(verb.loss()) == b.read_scalar(hand.loss()));
  }
  CHECK(at::equal(a.get("h"), b.get("h")));
  for (const auto& [of_verb, of_hand] : layers) {
    for (const std::string part : {"/weight", "/bias"}) {
      CHECK(at::equal(a.get(of_verb + part), b.get(of_hand + part)));
      const std::string moment = "optimizer/exp_avg_sq/";
      CHECK(at::equal(a.get(moment + of_verb + part), b.get(moment + of_hand + part)));
    }
  }
}

TEST_CASE("the gradient reaches back through the steps of unroll, and not past the state") {
  Graph g("power");
  const Value h = g.state("h", {f64, {}}, constant(2));
  const Values ys = g.unroll(3, h, [&](Value s, int) {
    const Value next = s * g.parameter("w", {f64, {}}, constant(1.5));
    return Unrolled{next, next};
  });
  g.minimize(ys.back(), Sgd{.lr = 0.01});
  OnEveryTarget runs(g);
  double w = 1.5, state = 2;
  for (int step = 0; step < 3; ++step) {
    runs.run();
    const double gradient = 3 * w * w * state;  // of w^3 h, with h a constant of this step
    state *= w * w * w;
    w -= 0.01 * gradient;
    CHECK(runs.replay().get("unroll/w").item<double>() == doctest::Approx(w).epsilon(1e-12));
    CHECK(runs.replay().get("h").item<double>() == doctest::Approx(state).epsilon(1e-12));
  }
}

/// Counts up from 0, from 5, and from numbers drawn; "a" and "b" lie in a scope.
struct Counting {
  Graph g{"counting"};
  Value x = g.input("x", f64, {2});
  Counting() {
    x.scope("cell", [&](Value v) {
      const Value a = g.state("a", {f64, {2}}), b = g.state("b", {f64, {2}}, constant(5));
      g.feed(a, a + v);
      g.feed(b, b + v);
      return a + b;
    });
    const Value drawn = g.state("drawn", {f64, {2}}, normal());
    g.feed(drawn, drawn + x);
    const Value w = g.parameter("w", {f64, {2}}, ones());
    g.minimize(sum(w * drawn), Sgd{.lr = 0.1});
  }
};

TEST_CASE("a state begins at zero or at what is given; reset takes it back there") {
  Counting model;
  OnEveryTarget runs(model.g);
  const at::Tensor drawn = runs.replay().get("drawn").clone(), w = runs.replay().get("w").clone();
  const at::Tensor ones = vector_of({1, 1});
  for (int i = 0; i < 2; ++i) runs.run({{model.x, ones}});
  for (Executable& e : runs.executables) {
    CHECK(e.get("cell/a").equal(ones * 2));
    CHECK(e.get("cell/b").equal(ones * 7));
    e.reset("cell/b");
    CHECK(e.get("cell/a").equal(ones * 2));
    CHECK(e.get("cell/b").equal(ones * 5));
    CHECK_FALSE(e.get("drawn").equal(drawn));
    e.reset("*/?");
    CHECK(e.get("cell/a").equal(ones * 0));
    CHECK_FALSE(e.get("drawn").equal(drawn));
    e.reset();
    CHECK(e.get("drawn").equal(drawn));
    CHECK_FALSE(e.get("w").equal(w));  // what training made stays
    CHECK(e.replays() == 2);
  }
  runs.run({{model.x, ones}});
  CHECK(runs.replay().get("cell/b").equal(ones * 6));
}

TEST_CASE("reset of what is no state") {
  Counting model;
  Executable step = compile(model.g, cpu_replay(), plain_options());
  CHECK_THROWS_WITH_AS(step.reset("w"),
                       "graph \"counting\": reset of \"w\" finds no state; its states are "
                       "\"cell/a\", \"cell/b\", \"drawn\"",
                       RunError);
  Graph none("none");
  none.output("y", none.input("x", f64, {}) + 1.0);
  Executable stateless = compile(none, cpu_replay(), plain_options());
  stateless.reset();
  CHECK_THROWS_WITH_AS(stateless.reset("h"),
                       "graph \"none\": reset of \"h\" finds no state; its states are none",
                       RunError);
}

TEST_CASE("evaluation reads the state and leaves it") {
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph g("accumulate");
    const Value x = g.input("x", f64, {});
    const Value h = g.state("h", {f64, {}});
    g.feed(h, h + x);
    g.output("y", h + x);
    CompileOptions options = plain_options();
    options.modes = {train, evaluate};
    Executable step = compile(g, target, options);
    const auto feed = [](double number) { return vector_of({number}).reshape({}); };
    step.run({{"x", feed(2)}});
    step.evaluate({{"x", feed(10)}});
    CHECK(step.read("y").item<double>() == 12);
    CHECK(step.get("h").item<double>() == 2);
  }
}

TEST_CASE("states are part of checkpoints: a resumed run gives the same bits") {
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph g("resumed");
    const Value h = g.state("h", {f64, {2, 3}}, normal());
    const Values ys = g.unroll(3, h, Cell{inputs(g, 3)});
    g.minimize(mean(square(ys.back())), Adam{.lr = 1e-2});
    const TemporaryFolder folder;
    Executable whole = compile(g, target, plain_options());
    for (int i = 0; i < 4; ++i) {
      if (i == 2) whole.save(folder.file("state.safetensors"));
      run(whole, i);
    }
    Executable resumed = compile(g, target, plain_options());
    CHECK(resumed.load(folder.file("state.safetensors")).empty());
    for (int i = 2; i < 4; ++i) run(resumed, i);
    CHECK(at::equal(whole.get("h"), resumed.get("h")));
    CHECK(at::equal(whole.get("unroll/linear/weight"), resumed.get("unroll/linear/weight")));
  }
}

}  // namespace
}  // namespace metronome::feedback_test
