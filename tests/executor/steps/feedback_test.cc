// Values that one step leaves for the next: states, their initial values, reset and checkpoints;
// and back-propagation through several steps.
#include <fmt/format.h>

#include <algorithm>
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

/// A norm with running statistics, a state, and two states that change places.
struct Stream {
  explicit Stream() {
    x = g.input("x", f64, {4, 3});
    t = g.input("t", f64, {4, 3});
    const Value h = g.state("h", {f64, {4, 3}}, constant(0.25));
    const Value a = g.state("a", {f64, {2}}, constant(1)),
                b = g.state("b", {f64, {2}}, constant(2));
    const Value next = tanh(h * 0.5 + x.through(batch_norm()).through(linear(3)));
    g.feed(h, next);
    g.feed(a, b);
    g.feed(b, a);
    g.output("y", next.through(dropout(0.5)));
    g.output("turn", a - b);
    g.minimize(mse_loss(next, t), Adam{.lr = 1e-2});
  }
  Graph g{"stream"};
  Value x, t;
};

at::Tensor stream_of(int i) {
  return at::linspace(-1 - i, 1 + i, 12, at::kDouble).reshape({4, 3}).cos();
}

std::vector<at::Tensor> tensors_of(const Executable& step, bool states) {
  std::vector<at::Tensor> tensors;
  for (const std::string& path : step.storages()) {
    const bool state = path == "h" || path == "a" || path == "b";
    if (state == states) tensors.push_back(step.get(path));
  }
  return tensors;
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  const auto same = [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); };
  return std::ranges::equal(a, b, same);
}

TEST_CASE("an evaluation that advances hands on states and nothing else") {
  Stream model;
  CompileOptions options = plain_options();
  options.modes = {train, evaluate, advance};
  std::vector<std::vector<at::Tensor>> outputs;  // [target][step]
  for (const Target& target : tests::targets()) {
    Executable step = compile(model.g, target, options);
    for (int i = 0; i < 2; ++i) step.run({{model.x, stream_of(i)}, {model.t, stream_of(i + 5)}});
    const Snapshot trained = step.snapshot();
    const std::vector<at::Tensor> rest = tensors_of(step, false), start = tensors_of(step, true);
    step.evaluate({{model.x, stream_of(3)}});
    CHECK(equal(tensors_of(step, true), start));
    std::vector<at::Tensor>& ys = outputs.emplace_back();
    for (int i = 3; i < 6; ++i) {
      step.evaluate({{model.x, stream_of(i)}}, {.states = States::advance});
      const at::Tensor y = step.read("y").clone();
      CHECK(step.get("h").equal(y));  // without dropout
      CHECK(step.read("turn").equal(vector_of({1, 1}) * (i % 2 == 0 ? 1 : -1)));
      ys.push_back(y);
    }
    CHECK(equal(tensors_of(step, false), rest));
    CHECK(step.replays() == 2);
    CHECK(step.updates() == 2);
    CHECK(step.steps() == 6);

    step.load(trained);  // the same once more, from the same start
    const std::vector<Feed> feeds = {{model.x, stream_of(3)}};
    step.evaluate(feeds, {.states = States::advance});
    CHECK(step.read("y").equal(ys[0]));
    step.reset();
    CHECK(step.get("h").equal(at::full({4, 3}, 0.25, at::kDouble)));
  }
  for (const std::vector<at::Tensor>& ys : outputs) {
    for (int i = 0; i < 3; ++i) CHECK(at::allclose(ys[i], outputs[0][i], 0, 1e-12));
  }
  CHECK(equal(outputs[0], outputs[1]));  // replay and stepwise
}

TEST_CASE("an advance alone needs what its states and outputs need") {
  Stream model;
  CompileOptions options = plain_options();
  options.modes = {advance};
  options.evaluate_outputs = {"turn"};
  Executable step = compile(model.g, cpu_replay(), options);
  step.evaluate({{model.x, stream_of(0)}}, {.states = States::advance});  // no target
  CHECK(step.read("turn").equal(vector_of({-1, -1})));
  CHECK_FALSE(step.get("h").equal(at::full({4, 3}, 0.25, at::kDouble)));
  CHECK_THROWS_WITH_AS(step.evaluate({{model.x, stream_of(0)}}),
                       "graph \"stream\" was not compiled to evaluate; add mt::evaluate to "
                       "CompileOptions::modes",
                       RunError);
  options.modes = {train};
  options.evaluate_outputs = {};
  Executable trains = compile(model.g, cpu_replay(), options);
  CHECK_THROWS_WITH_AS(trains.evaluate({{model.x, stream_of(0)}}, {.states = States::advance}),
                       "graph \"stream\" was not compiled to advance; add mt::advance to "
                       "CompileOptions::modes",
                       RunError);
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
