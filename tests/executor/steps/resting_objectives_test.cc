// Objectives that do not train in every step: in some replays, where a value is true, where their
// gradients are finite.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/engine/observer.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::resting_objectives_test {
namespace {

using tests::error_of;
using tests::OnEveryTarget;
using tests::plain_options;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor batch(int step) {
  const at::Tensor n = at::arange(18, at::TensorOptions(at::kDouble));
  return at::sin(n * 0.7 + step).reshape({6, 3});
}
at::Tensor yes(bool which) { return at::full({}, which, at::TensorOptions(at::kBool)); }
double number(Executable& e, const std::string& path) { return e.get(path).item<double>(); }

std::vector<Target> all_targets() {
  return {cpu_replay(), stepwise(), eager(), tests::device_of_host()};
}

/// A scalar that goes half of the way to 3 in each update.
struct Walk {
  Graph g{"walk"};
  Value decides = g.input("decides", bool_, {}), end = g.input("end", f64, {});
  Value a = g.parameter("a", {f64, {}}, constant(1));
  Objective objective;

  explicit Walk(const std::function<ObjectiveOptions(const Walk&)>& options) {
    objective = g.minimize(square(a - end), Sgd{.lr = 0.25}, options(*this));
  }
  static void run(Executable& step, bool decision, double end = 3) {
    step.run({{"decides", yes(decision)}, {"end", at::full({}, end, at::kDouble)}});
  }
};

TEST_CASE("every second replay, from the first one on") {
  for (const Target& target : all_targets()) {
    Walk walk([](const Walk&) { return ObjectiveOptions{.every = 2}; });
    Executable step = compile(walk.g, target, plain_options());
    double a = 1, loss = kInfinity;
    for (int i = 0; i < 5; ++i) {
      CAPTURE(i);
      Walk::run(step, true);
      if (i % 2 == 0) loss = (a - 3) * (a - 3), a -= 0.5 * (a - 3);
      CHECK(number(step, "a") == doctest::Approx(a));
      CHECK(step.read_scalar(walk.objective.loss()) == doctest::Approx(loss));
      CHECK(step.updates() == i / 2 + 1);
      CHECK(step.replays() == i + 1);
    }
  }
}

TEST_CASE("where a value is true; the loss reads as last computed, and infinite before") {
  for (const Target& target : all_targets()) {
    for (const bool named : {false, true}) {
      Walk walk([&](const Walk& w) {
        return ObjectiveOptions{.name = named ? "walk" : "", .when = w.decides};
      });
      Executable step = compile(walk.g, target, plain_options());
      const std::string counter = named ? "update/walk" : "update";
      const Value updates = walk.objective.updates();
      CHECK(walk.g.data().storage(updates.node().op->as<Read>()->storage).path == counter);
      double a = 1, loss = kInfinity;
      int made = 0;
      for (const bool decision : {false, true, false, false, true}) {
        Walk::run(step, decision);
        if (decision) loss = (a - 3) * (a - 3), a -= 0.5 * (a - 3), ++made;
        CHECK(number(step, "a") == doctest::Approx(a));
        const double read = step.read_scalar(walk.objective.loss());
        CHECK((read == loss || read == doctest::Approx(loss)));
        CHECK(step.get(counter).item<std::int64_t>() == made);
      }
      CHECK(step.updates() == (named ? 5 : 2));
    }
  }
}

TEST_CASE("both: a replay that k does not divide is left out whatever the value is") {
  for (const Target& target : all_targets()) {
    Walk walk([](const Walk& w) { return ObjectiveOptions{.every = 2, .when = w.decides}; });
    Executable step = compile(walk.g, target, plain_options());
    double a = 1;
    const bool decisions[] = {true, true, false, true, true};
    for (int i = 0; i < 5; ++i) {
      Walk::run(step, decisions[i]);
      if (i % 2 == 0 && decisions[i]) a -= 0.5 * (a - 3);
      CHECK(number(step, "a") == doctest::Approx(a));
    }
    CHECK(step.updates() == 2);
  }
}

TEST_CASE("gradients that are not finite leave all as it was") {
  for (const Target& target : all_targets()) {
    Graph g("finite");
    const Value x = g.input("x", f64, {});
    const Value a = g.parameter("a", {f64, {}}, constant(1));
    const Objective walk = g.minimize(square(a - x), Adam{.lr = 0.1}, {.skip_not_finite = true});
    g.average("a", {.decay = 0.5});
    Executable step = compile(g, target, plain_options());
    const auto run = [&](double x) { step.run({{"x", at::full({}, x, at::kDouble)}}); };
    run(3);
    std::vector<at::Tensor> kept;
    for (const std::string& path : step.storages()) kept.push_back(step.get(path).clone());
    for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), kInfinity}) {
      run(wrong);
      const std::vector<std::string> paths = step.storages();
      for (std::size_t i = 0; i < paths.size(); ++i) {
        CAPTURE(paths[i]);
        if (paths[i] != "replay") CHECK(at::equal(step.get(paths[i]), kept[i]));
      }
      CHECK_FALSE(std::isfinite(step.read_scalar(walk.loss())));
    }
    CHECK(step.updates() == 1);
    run(3);
    CHECK(step.updates() == 2);
    CHECK(number(step, "a") > kept[0].item<double>());
  }
}

/// A critic in every step, and an actor and the targets of both in every second one (Fujimoto, van
/// Hoof and Meger, "Addressing function approximation error in actor-critic methods", 2018).
struct Delayed {
  Graph g{"delayed"};
  Value x = g.input("x", f64, {6, 3}), returned = g.input("returned", f64, {6, 1});
  Objective critic, actor;

  explicit Delayed(std::int64_t every, bool reads_gradient = false) {
    const Layer judge = shared(
        [](Value pair) { return metronome::tanh(pair.through(linear(8))).through(linear(1)); });
    const Layer act = shared([](Value seen) { return metronome::tanh(seen.through(linear(2))); });
    const Value next =
        x.scope("target_actor",
                shared([](Value seen) { return metronome::tanh(seen.through(linear(2))); }));
    const Value aim = concat({x, next}, 1).scope("target_critic", shared([](Value pair) {
                                                   return metronome::tanh(pair.through(linear(8)))
                                                       .through(linear(1));
                                                 }));
    const Value action = x.scope("actor", act);
    const Value judged = concat({x, stop_gradient(action)}, 1).scope("critic", judge);
    critic = g.minimize(mse_loss(judged, returned + 0.9 * stop_gradient(aim)), Adam{.lr = 3e-2},
                        {.name = "critic", .parameters = {"critic"}});
    actor = g.minimize(-mean(concat({x, action}, 1).through(judge)), Adam{.lr = 1e-2},
                       {.name = "actor", .parameters = {"actor"}, .every = every});
    g.follow("target_critic", "critic", {.rate = 0.2, .every = every});
    g.follow("target_actor", "actor", {.rate = 0.2});
    g.average("actor", {.decay = 0.9});
    if (reads_gradient) g.output("slope", norm(actor.gradient(action)));
  }
  std::vector<Feed> feeds(int step) const {
    return {{x, batch(step)}, {returned, batch(step + 50).slice(1, 0, 1)}};
  }
};

TEST_CASE("an actor and targets that move in every second step, on every target") {
  for (const bool reads_gradient : {false, true}) {
    const Delayed model(2, reads_gradient);
    OnEveryTarget runs(model.g);
    for (int step = 0; step < 12; ++step) {
      CAPTURE(step);
      std::vector<at::Tensor> actors, targets, followers;
      for (Executable& e : runs.executables) {
        actors.push_back(e.get("actor/shared/linear/weight"));
        targets.push_back(e.get("target_critic/shared/linear/weight"));
        followers.push_back(e.get("target_actor/shared/linear/weight"));
      }
      runs.run({{model.x, batch(step)}, {model.returned, batch(step + 50).slice(1, 0, 1)}});
      for (std::size_t k = 0; k < actors.size(); ++k) {
        Executable& e = runs.executables[k];
        CHECK(at::equal(e.get("actor/shared/linear/weight"), actors[k]) == (step % 2 == 1));
        CHECK(at::equal(e.get("target_actor/shared/linear/weight"), followers[k]) ==
              (step % 2 == 1));
        // Its every counts the critic's updates: 2, 4, ...
        CHECK(at::equal(e.get("target_critic/shared/linear/weight"), targets[k]) ==
              (step % 2 == 0));
        CHECK(e.get("update/critic").item<std::int64_t>() == step + 1);
        CHECK(e.get("update/actor").item<std::int64_t>() == step / 2 + 1);
        CHECK(e.read_scalar(model.actor.loss()) ==
              doctest::Approx(runs.replay().read_scalar(model.actor.loss())).epsilon(1e-10));
        if (reads_gradient) CHECK(e.read("slope").item<double>() > 0);
      }
    }
  }
}

TEST_CASE("a hundred steps: replay as stepwise to the bit, near eager") {
  const Delayed model(3);
  OnEveryTarget runs(model.g);
  for (int step = 0; step < 100; ++step) {
    for (Executable& e : runs.executables) e.run(model.feeds(step));
  }
  for (const std::string& path : runs.replay().storages()) {
    CAPTURE(path);
    CHECK(at::equal(runs.replay().get(path), runs.executables[1].get(path)));
    CHECK(at::allclose(runs.replay().get(path), runs.executables[2].get(path), 1e-9, 1e-11));
  }
}

/// Names what runs, but for guards, and merges, which leave a storage as it is.
struct Named final : Observer {
  std::vector<std::string> nodes;
  void after(const ObservedNode& seen) override {
    const std::string name(seen.node().op->name());
    if (name != "merge" && name != "guard") nodes.push_back(name);
  }
};

TEST_CASE("what only a loss needs is not computed in a step that leaves it out") {
  // The actor's own: two products and a tanh, their gradients, a mean, the update.
  const Delayed model(2);
  CompileOptions options = plain_options();
  const auto named = std::make_shared<Named>();
  options.observer = named;
  Executable step = compile(model.g, stepwise(), options);
  step.run(model.feeds(0));
  const std::vector<std::string> first = std::exchange(named->nodes, {});
  step.run(model.feeds(1));
  const std::vector<std::string> second = named->nodes;
  const auto count = [](const std::vector<std::string>& nodes, const std::string& name) {
    return std::ranges::count(nodes, name);
  };
  MESSAGE("nodes: ", first.size(), ", then ", second.size());
  CHECK(count(first, "linear") - count(second, "linear") == 2);
  CHECK(count(first, "adam_update") - count(second, "adam_update") == 2);
  CHECK(first.size() - second.size() >= 15);
}

TEST_CASE("training goes on in the middle of a count, from a snapshot") {
  for (const Target& target : all_targets()) {
    const Delayed model(3);
    Executable whole = compile(model.g, target, plain_options());
    for (int step = 0; step < 4; ++step) whole.run(model.feeds(step));
    Executable other = compile(model.g, target, plain_options());
    other.load(whole.snapshot());
    for (int step = 4; step < 8; ++step) {
      whole.run(model.feeds(step));
      other.run(model.feeds(step));
      CHECK(other.read_scalar(model.actor.loss()) == whole.read_scalar(model.actor.loss()));
    }
    for (const std::string& path : whole.storages()) {
      CAPTURE(path);
      CHECK(at::equal(whole.get(path), other.get(path)));
    }
  }
}

TEST_CASE("an evaluation computes the loss, whenever it trains") {
  CompileOptions options = plain_options();
  options.modes = {train, evaluate};
  for (const Target& target : tests::targets()) {
    Walk walk([](const Walk& w) { return ObjectiveOptions{.when = w.decides}; });
    Executable step = compile(walk.g, target, options);
    step.evaluate({{"end", at::full({}, 3.0, at::kDouble)}});
    CHECK(step.read("loss").item<double>() == 4);
  }
}

TEST_CASE("two objectives of one loss, each with a pace of its own") {
  for (const Target& target : all_targets()) {
    Graph g("one loss");
    const Value a = g.parameter("a", {f64, {}}, constant(1)),
                b = g.parameter("b", {f64, {}}, constant(1));
    const Value loss = square(a - 3.0) + square(b + 1.0);
    const Objective two =
        g.minimize(loss, Sgd{.lr = 0.25}, {.name = "a", .parameters = {"a"}, .every = 2});
    const Objective three =
        g.minimize(loss, Sgd{.lr = 0.25}, {.name = "b", .parameters = {"b"}, .every = 3});
    g.output("also", loss);
    Executable step = compile(g, target, plain_options());
    double x = 1, y = 1, by_two = 0, by_three = 0;
    for (int i = 0; i < 7; ++i) {
      CAPTURE(i);
      step.run({});
      const double now = (x - 3) * (x - 3) + (y + 1) * (y + 1);
      if (i % 2 == 0) by_two = now, x -= 0.5 * (x - 3);
      if (i % 3 == 0) by_three = now, y -= 0.5 * (y + 1);
      CHECK(step.read("loss/a").item<double>() == doctest::Approx(by_two));
      CHECK(step.read("loss/b").item<double>() == doctest::Approx(by_three));
      CHECK(step.read("also").item<double>() == doctest::Approx(now));
      CHECK(number(step, "a") == doctest::Approx(x));
      CHECK(number(step, "b") == doctest::Approx(y));
    }
  }
}

TEST_CASE("a decision made of an updated parameter, for a loss of the old one") {
  for (const Target& target : all_targets()) {
    Graph g("late");
    const Value a = g.parameter("a", {f64, {}}, constant(1)),
                b = g.parameter("b", {f64, {}}, constant(2));
    const Value old_loss = square(a * b - 1.0);
    g.minimize(square(a - 3.0), Sgd{.lr = 0.25}, {.name = "a", .parameters = {"a"}});
    g.minimize(old_loss, Sgd{.lr = 0.05},
               {.name = "b", .parameters = {"b"}, .when = g.parameter("a") > 2.2});
    Executable step = compile(g, target, plain_options());
    double x = 1, y = 2;
    for (int i = 0; i < 4; ++i) {
      step.run({});
      const double before = x;
      x -= 0.5 * (x - 3);
      if (x > 2.2) y -= 0.05 * 2 * (before * y - 1) * before;
      CHECK(number(step, "a") == doctest::Approx(x));
      CHECK(number(step, "b") == doctest::Approx(y));
    }
  }
}

TEST_CASE("a loss that is a parameter itself, and one whose parameters a branch leaves out") {
  for (const Target& target : all_targets()) {
    Graph g("itself");
    g.minimize(g.parameter("w", {f64, {}}, ones()), Sgd{.lr = 0.25}, {.every = 2});
    Executable step = compile(g, target, plain_options());
    step.run({});
    CHECK(step.read_scalar(g.loss()) == 1);
    CHECK(number(step, "w") == 0.75);
    step.run({});
    CHECK(step.read_scalar(g.loss()) == 1);

    Graph branch("branch");
    const Value takes = branch.input("takes", bool_, {}), x = branch.input("x", f64, {});
    const Value w = branch.parameter("w", {f64, {}}, ones());
    const Value loss =
        x.choose(takes, {[](Value v) { return v * v; }, [&](Value v) { return v * w; }});
    branch.minimize(loss, Sgd{.lr = 0.5, .momentum = 0.5}, {.skip_not_finite = true});
    Executable other = compile(branch, target, plain_options());
    for (const bool which : {true, false, false}) {
      other.run({{"takes", yes(which)}, {"x", at::ones({}, at::kDouble)}});
    }
    // Slopes 1, 0, 0: the momentum is 1, 0.5 and 0.25. All count, as a gradient of 0 is finite.
    CHECK(other.updates() == 3);
    CHECK(number(other, "w") == doctest::Approx(1 - 0.5 * 1.75));
  }
}

TEST_CASE("a branch that no step can take, beside an objective that rests") {
  Graph g("never");
  const Value x = g.input("x", f64, {6}), which = g.input("which", i32, {});
  const auto inner = [&](Value h) {
    return h.choose(which, {[](Value v) { return v * 0.5 + 0.25; }, metronome::tanh});
  };
  const Value y = x.choose(which, {metronome::tanh, inner}).through(linear(2));
  g.minimize(mean(square(y)), Sgd{.lr = 0.1}, {.every = 2, .skip_not_finite = true});
  OnEveryTarget runs(g);
  for (int step = 0; step < 4; ++step) {
    runs.run({{x, batch(step).reshape({-1}).slice(0, 0, 6)},
              {which, at::full({}, step / 2, at::TensorOptions(at::kInt))}});
  }
}

TEST_CASE("checkpoints of other objectives: their counters come and go") {
  const auto declared = [](const std::string& name) {
    auto g = std::make_unique<Graph>("net");
    const Value loss = square(g->parameter("w", {f64, {}}, ones()));
    if (name == "none") {
      g->output("loss of none", loss);
    } else {
      g->minimize(loss, Adam{.lr = 0.1}, {.name = name == "unnamed" ? "" : name});
    }
    return g;
  };
  CompileOptions evaluates = plain_options();
  evaluates.modes = {Mode::evaluate};
  const auto named = declared("critic"), other = declared("judge"), unnamed = declared("unnamed"),
             none = declared("none");
  Executable one = compile(*named, cpu_replay(), plain_options());
  for (int i = 0; i < 3; ++i) one.run({});
  for (const auto* to : {&other, &unnamed}) {
    Executable two = compile(**to, cpu_replay(), plain_options());
    two.load(one.snapshot());
    two.run({});
    CHECK(two.updates() == 4);
    Executable back = compile(*named, cpu_replay(), plain_options());
    back.load(two.snapshot());
    CHECK(back.get("update/critic").item<std::int64_t>() == 4);
  }
  Executable deployed = compile(*none, cpu_replay(), evaluates);
  deployed.load(one.snapshot());
  CHECK(number(deployed, "w") == number(one, "w"));
}

/// The text of the mistake that the options make.
std::string refusal(const std::function<void(Graph&, Value, ObjectiveOptions&)>& set) {
  Graph g("refused");
  const Value x = g.input("x", f64, {2}, {"net.cc", 1});
  const Value loss = mean(square(x * g.parameter("w", {f64, {2}}, ones(), {"net.cc", 2})), {},
                          false, {"net.cc", 3});
  ObjectiveOptions options;
  set(g, x, options);
  g.minimize(loss, Sgd{}, options, {"net.cc", 9});
  const std::string text = error_of<GraphError>([&] { g.validate(); });
  const std::string head =
      "net.cc:9: minimize cannot take the loss\n  operand 0  f64[]  \"mean\"  net.cc:3\n";
  return text.starts_with(head) ? text.substr(head.size()) : text;
}

TEST_CASE("options that are refused") {
  CHECK(refusal([](Graph&, Value, ObjectiveOptions& o) { o.every = 0; }) ==
        "  requires   an every of 1 or more, but 0");
  CHECK(refusal([](Graph&, Value x, ObjectiveOptions& o) { o.when = x > 0.0; }) ==
        "  requires   a boolean scalar bool[] for when, but bool[2]\n"
        "  way out    compare a number: .when = mt::mean(x) > 0.5");
  CHECK(refusal([](Graph&, Value x, ObjectiveOptions& o) { o.when = mean(x); }) ==
        "  requires   a boolean scalar bool[] for when, but f64[]\n"
        "  way out    compare a number: .when = mt::mean(x) > 0.5");
  Graph other("other");
  CHECK(refusal([&](Graph&, Value, ObjectiveOptions& o) {
          o.when = other.input("y", bool_, {});
        }) == "  requires   a when of this graph");
  CHECK(
      refusal([](Graph& g, Value x, ObjectiveOptions& o) { o.when = norm(g.gradient(x)) > 0.0; }) ==
      "  requires   what is computed in the forward pass, but this, made of gradients or of the "
      "update, comes after it");
  CHECK(refusal([](Graph& g, Value, ObjectiveOptions& o) {
          o.name = "w";
          g.parameter("update/w", {f64, {}}, ones());
          o.parameters = {"w"};
        }) ==
        "  requires   a name that leaves the path \"update/w\" to its counter, but a storage has "
        "it");
  Graph g("follows");
  g.parameter("a", {f64, {}}, ones());
  g.parameter("b", {f64, {}}, ones());
  g.follow("b", "a", {.rate = 1, .every = 0}, {"net.cc", 4});
  CHECK(error_of<GraphError>([&] { g.validate(); }) ==
        "net.cc:4: follow(\"b\", \"a\", {.rate = 1, .every = 0}) cannot be kept\n"
        "  requires   a FollowOptions::every of 1 or more, but 0");
}

}  // namespace
}  // namespace metronome::resting_objectives_test
