// A parameter that is read behind the `minimize` that trains it is the updated one; a value made
// before stays old.
//
//   critic(x) -> its loss -> minimize -> critic(actor(x)), of updated weights -> the actor's loss
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/targets.h"

namespace metronome::updated_reads_test {
namespace {

using tests::OnEveryTarget;
using tests::plain_options;

at::Tensor batch(int step, std::int64_t rows = 6) {
  const at::Tensor n = at::arange(rows * 3, at::TensorOptions(at::kDouble));
  return at::sin(n * 0.7 + step).reshape({rows, 3});
}

/// An actor that climbs a critic.
struct Agent {
  Graph g{"agent"};
  Value x = g.input("x", f64, {6, 3}), returned = g.input("returned", f64, {6, 1});
  Objective critic, actor;

  Value weight(const std::string& path, Shape shape, bool again) {
    return again ? g.parameter(path) : g.parameter(path, {f64, std::move(shape)}, normal(0, 0.4));
  }
  Value judge(const Value& action, bool again = false) {
    const Value w = weight("critic/w", {8, 5}, again), v = weight("critic/v", {1, 8}, again);
    return linear(metronome::tanh(linear(concat({x, action}, 1), w)), v);
  }
  Value act() { return metronome::tanh(x.scope("actor", linear(2))); }
  void train_critic() {
    const Value loss = mse_loss(judge(x.slice(1, 0, 2)), returned);
    critic = g.minimize(loss, Adam{.lr = 3e-2}, {.name = "critic", .parameters = {"critic"}});
  }
  void train_actor() {
    const Value loss = -mean(judge(act(), true));
    actor = g.minimize(loss, Adam{.lr = 1e-2}, {.name = "actor", .parameters = {"actor"}});
  }
  std::vector<Feed> feeds(int step) const {
    return {{x, batch(step)}, {returned, batch(step + 50).slice(1, 0, 1)}};
  }
};

TEST_CASE("an actor on the critic that the same step has updated") {
  Agent both;
  both.train_critic();
  both.train_actor();
  OnEveryTarget runs(both.g);
  // By hand: one graph trains the critic, the other the actor by what the first left.
  Agent critics, actors;
  critics.train_critic();
  actors.judge(actors.x.slice(1, 0, 2));
  actors.g.freeze("critic");
  actors.train_actor();
  Executable first = compile(critics.g, cpu_replay(), plain_options());
  Executable second = compile(actors.g, cpu_replay(), plain_options());
  for (const std::string path : {"critic/w", "critic/v"}) first.set(path, runs.replay().get(path));
  for (const std::string path : {"actor/linear/weight", "actor/linear/bias"}) {
    second.set(path, runs.replay().get(path));
  }
  for (int step = 0; step < 5; ++step) {
    CAPTURE(step);
    runs.run({{both.x, batch(step)}, {both.returned, batch(step + 50).slice(1, 0, 1)}});
    first.run(critics.feeds(step));
    for (const std::string path : {"critic/w", "critic/v"}) second.set(path, first.get(path));
    second.run(actors.feeds(step));
    for (Executable& e : runs.executables) {
      CHECK(e.read_scalar(both.critic.loss()) ==
            doctest::Approx(first.read_scalar(critics.critic.loss())).epsilon(1e-10));
      CHECK(e.read_scalar(both.actor.loss()) ==
            doctest::Approx(second.read_scalar(actors.actor.loss())).epsilon(1e-10));
    }
  }
  for (const DeclaredParameter& p : both.g.parameters()) {
    CAPTURE(p.path);
    Executable& alone = p.path.starts_with("critic") ? first : second;
    CHECK(at::allclose(runs.replay().get(p.path), alone.get(p.path), 1e-10, 1e-12));
  }
}

TEST_CASE("a hundred steps: replay as stepwise to the bit, near eager") {
  Agent agent;
  agent.train_critic();
  agent.train_actor();
  OnEveryTarget runs(agent.g);
  for (int step = 0; step < 100; ++step) {
    for (Executable& e : runs.executables) e.run(agent.feeds(step));
  }
  for (const std::string& path : runs.replay().storages()) {
    CAPTURE(path);
    const at::Tensor replayed = runs.replay().get(path);
    CHECK(at::equal(replayed, runs.executables[1].get(path)));
    CHECK(at::allclose(replayed, runs.executables[2].get(path), 1e-9, 1e-11));
  }
}

TEST_CASE("old and updated values of one parameter in one loss") {
  for (const Target& target : {cpu_replay(), stepwise(), eager(), tests::device_of_host()}) {
    Graph g("both");
    const Value a = g.parameter("a", {f64, {}}, constant(2)),
                b = g.parameter("b", {f64, {}}, constant(3));
    const Value of_old = a * b;
    g.minimize(square(a), Sgd{.lr = 0.25}, {.name = "a", .parameters = {"a"}});
    const Value updated = g.parameter("a");
    const Objective of_b = g.minimize(of_old + updated * square(b), Sgd{.lr = 0.1},
                                      {.name = "b", .parameters = {"b"}});
    g.output("old a", a);
    g.output("updated a", updated);
    g.output("updated b", g.parameter("b"));
    const Value slope = of_b.gradient(b), of_updated = of_b.gradient(updated),
                of_a = of_b.gradient(a);
    Executable step = compile(g, target, plain_options());
    double old_a = 2, old_b = 3;
    for (int i = 0; i < 3; ++i) {
      CAPTURE(i);
      step.run({});
      const double new_a = old_a - 0.25 * 2 * old_a;
      const double gradient = old_a + 2 * new_a * old_b, new_b = old_b - 0.1 * gradient;
      CHECK(step.read_scalar(of_b.loss()) ==
            doctest::Approx(old_a * old_b + new_a * old_b * old_b));
      CHECK(step.read("old a").item<double>() == doctest::Approx(old_a));
      CHECK(step.read("updated a").item<double>() == doctest::Approx(new_a));
      CHECK(step.read("updated b").item<double>() == doctest::Approx(new_b));
      CHECK(step.read_scalar(slope) == doctest::Approx(gradient));
      CHECK(step.read_scalar(of_updated) == doctest::Approx(old_b * old_b));
      CHECK(step.read_scalar(of_a) == doctest::Approx(old_b));
      CHECK(step.get("a").item<double>() == doctest::Approx(new_a));
      CHECK(step.get("b").item<double>() == doctest::Approx(new_b));
      old_a = new_a, old_b = new_b;
    }
  }
}

TEST_CASE("a gradient that flows through old weights after their update") {
  // The hidden layer of the second loss was made before, of weights that the first one updates.
  Graph g("through");
  const Value x = g.input("x", f64, {6, 3});
  const Value w = g.parameter("w", {f64, {4, 3}}, normal(0, 1));
  const Value u = g.parameter("u", {f64, {3, 3}}, normal(0, 1));
  const Value hidden = linear(metronome::tanh(linear(x, u)), w);
  g.minimize(mean(square(linear(x, w) - 0.5)), Adam{.lr = 0.1}, {.name = "w", .parameters = {"w"}});
  const Value again = linear(x, g.parameter("w"));
  g.minimize(mean(square(hidden - again)), Sgd{.lr = 0.1}, {.name = "u", .parameters = {"u"}});
  g.output("norms", norm(g.parameter("w")) - norm(w));
  OnEveryTarget runs(g);
  for (int step = 0; step < 4; ++step) {
    runs.run({{x, batch(step)}});
    for (Executable& e : runs.executables) {
      CHECK(e.read("norms").item<double>() ==
            doctest::Approx(runs.replay().read("norms").item<double>()).epsilon(1e-10));
    }
  }
}

TEST_CASE("states, buffers and decisions of updated parameters, and a state of an old one") {
  Graph g("kept");
  const Value x = g.input("x", f64, {6, 3});
  const Value w = g.parameter("w", {f64, {3}}, constant(1));
  const Value before = g.state("before", {f64, {3}}, zeros());
  const Value after = g.state("after", {f64, {3}}, zeros());
  g.feed(before, w);
  g.minimize(mean(square(x * w - 1.0)), Sgd{.lr = 0.2}, {.name = "w", .parameters = {"w"}});
  const Value updated = g.parameter("w");
  g.feed(after, updated);
  const Value v = g.parameter("v", {f64, {3}}, constant(0.5));
  const Value chosen =
      (x * v).choose(mean(updated) > 0.9, {metronome::tanh, [&](Value h) { return h * updated; }});
  g.minimize(mean(square(chosen)), Sgd{.lr = 0.2}, {.name = "v", .parameters = {"v"}});
  OnEveryTarget runs(g);
  for (int step = 0; step < 6; ++step) {
    CAPTURE(step);
    std::vector<at::Tensor> old;
    for (Executable& e : runs.executables) old.push_back(e.get("w"));
    runs.run({{x, batch(step)}});
    for (std::size_t k = 0; k < old.size(); ++k) {
      CHECK(at::equal(runs.executables[k].get("before"), old[k]));
      CHECK(at::equal(runs.executables[k].get("after"), runs.executables[k].get("w")));
    }
  }
}

TEST_CASE("three objectives in a row, each on what the one before has updated") {
  for (const Target& target : {cpu_replay(), stepwise(), eager(), tests::device_of_host()}) {
    Graph g("row");
    std::vector<Value> each;
    for (const char* name : {"a", "b", "c"}) {
      each.push_back(g.parameter(name, {f64, {}}, constant(1)));
    }
    g.minimize(square(each[0] - 3.0), Sgd{.lr = 0.25}, {.name = "a", .parameters = {"a"}});
    g.minimize(square(each[1] - g.parameter("a")), Sgd{.lr = 0.25},
               {.name = "b", .parameters = {"b"}});
    g.minimize(square(each[2] - g.parameter("b") * g.parameter("a")), Sgd{.lr = 0.25},
               {.name = "c", .parameters = {"c"}});
    Executable step = compile(g, target, plain_options());
    double a = 1, b = 1, c = 1;
    for (int i = 0; i < 3; ++i) {
      step.run({});
      a -= 0.5 * (a - 3), b -= 0.5 * (b - a), c -= 0.5 * (c - b * a);
      CHECK(step.get("a").item<double>() == doctest::Approx(a));
      CHECK(step.get("b").item<double>() == doctest::Approx(b));
      CHECK(step.get("c").item<double>() == doctest::Approx(c));
    }
  }
}

TEST_CASE("an evaluation reads the stored value for both") {
  CompileOptions options = plain_options();
  options.modes = {train, evaluate};
  for (const Target& target : tests::targets()) {
    Graph g("stored");
    const Value w = g.parameter("w", {f64, {}}, constant(2));
    g.output("old", w * 1.0);
    g.minimize(square(w), Sgd{.lr = 0.25});
    g.output("new", g.parameter("w") * 1.0);
    Executable step = compile(g, target, options);
    step.evaluate({});
    CHECK(step.read("old").item<double>() == 2);
    CHECK(step.read("new").item<double>() == 2);
    step.run({});
    CHECK(step.read("old").item<double>() == 2);
    CHECK(step.read("new").item<double>() == 1);
    step.evaluate({});
    CHECK(step.read("old").item<double>() == 1);
    CHECK(step.read("new").item<double>() == 1);
  }
}

TEST_CASE("a parameter that is frozen where it is read is the old one, thawed or not") {
  for (const bool thawed : {false, true}) {
    for (const Target& target : {cpu_replay(), eager()}) {
      Graph g("frozen");
      const Value w = g.parameter("w", {f64, {}}, constant(2)),
                  v = g.parameter("v", {f64, {}}, constant(1));
      g.freeze("w");
      g.minimize(square(w) + square(v), Sgd{.lr = 0.25});
      g.output("new", g.parameter("w") * 1.0);
      if (thawed) g.thaw("w");
      Executable step = compile(g, target, plain_options());
      step.run({});
      CHECK(step.read("new").item<double>() == 2);
      CHECK(step.get("w").item<double>() == (thawed ? 1 : 2));
    }
  }
}

}  // namespace
}  // namespace metronome::updated_reads_test
