// Learning rates, weight decays and norms to clip to that are set between steps.
#include <limits>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/options.h"
#include "tests/executor/plain_optimizer.h"
#include "tests/executor/targets.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::settable_numbers_test {
namespace {

using tests::error_of;
using tests::OnEveryTarget;
using tests::PlainOptimizer;

/// Two layers, one of them at a rate and a decay of its own.
struct Net {
  Graph g{"net"};
  Value x = g.input("x", f64, {4, 5});
  explicit Net(const Optimizer& optimizer, const ObjectiveOptions& options = {}) {
    const Value h = tanh(x.scope("first", linear(5)));
    g.minimize(mean(square(h.scope("second", linear(3)) - 0.25)), optimizer, options);
    g.scale_learning_rate("second", 3);
    g.scale_weight_decay("second/**/weight", 0.5);
    g.scale_weight_decay("**/bias", 0);
  }
};

at::Tensor batch(int step) {
  return at::linspace(-1, 2 - 0.1 * step, 20, at::kDouble).reshape({4, 5});
}

/// The numbers of one phase of a training.
struct Numbers {
  double lr, weight_decay, clip_norm;
};
const std::vector<Numbers> kPhases = {
    {0.02, 0.1, 10}, {0.1, 0, 0.05}, {0, 0.3, 0.01}, {1e-3, 2, 1}};

void set(Executable& step, const Numbers& to, std::string_view objective = {}) {
  step.set_learning_rate(to.lr, objective);
  step.set_weight_decay(to.weight_decay, objective);
  step.set_clip_norm(to.clip_norm, objective);
}

template <class Rule>
Rule fixed(Rule rule, const Numbers& at) {
  rule.lr = at.lr, rule.weight_decay = at.weight_decay, rule.clip_norm = at.clip_norm;
  return rule;
}
template <class Rule>
Rule settable(Rule rule, const Numbers& first) {
  rule.lr = Settable{first.lr};
  rule.weight_decay = Settable{first.weight_decay};
  rule.clip_norm = Settable{first.clip_norm};
  return rule;
}

/// Calls `check` with an optimizer of each kind.
template <class Check>
void with_each_optimizer(const Check& check) {
  check(Adam{.beta1 = 0.8});
  check(AdamW{});
  check(Sgd{.momentum = 0.9});
  check(Sgd{});
}

TEST_CASE("numbers that are set between steps count from the next step on, on every target") {
  with_each_optimizer([](auto rule) {
    const Net net(settable(rule, kPhases[0]));
    OnEveryTarget runs(net.g);
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase) {
      for (Executable& step : runs.executables) {
        if (phase > 0) set(step, kPhases[phase]);
        CHECK(step.learning_rate() == kPhases[phase].lr);
        CHECK(step.weight_decay() == kPhases[phase].weight_decay);
        CHECK(step.clip_norm() == kPhases[phase].clip_norm);
      }
      for (int i = 0; i < 3; ++i) runs.run({{net.x, batch(static_cast<int>(phase) * 3 + i)}});
    }
  });
}

TEST_CASE("a phase has the bits of a step that was compiled with its numbers") {
  with_each_optimizer([](auto rule) {
    const Net net(settable(rule, kPhases[0]));
    Executable step = compile(net.g, cpu_replay(), tests::plain_options());
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase) {
      CAPTURE(phase);
      if (phase > 0) set(step, kPhases[phase]);
      const Net of_phase(fixed(rule, kPhases[phase]));
      Executable compiled = compile(of_phase.g, cpu_replay(), tests::plain_options());
      compiled.load(step.snapshot());
      for (int i = 0; i < 5; ++i) {
        step.run({{net.x, batch(i)}}), compiled.run({{of_phase.x, batch(i)}});
      }
      for (const std::string& path : compiled.storages()) {
        CHECK_MESSAGE(at::equal(step.get(path), compiled.get(path)), path);
      }
    }
  });
}

TEST_CASE("each objective has its own, and the only one needs no name") {
  Graph g("several");
  const Value a = g.parameter("a", {f64, {2}}, ones()), b = g.parameter("b", {f64, {2}}, ones());
  const Objective first =
      g.minimize(sum(a), Sgd{.lr = Settable{0.1}}, {.name = "first", .parameters = {"a"}});
  g.minimize(sum(b), Sgd{.lr = Settable{0.2}}, {.name = "second", .parameters = {"b"}});
  const Value told = first.learning_rate();
  OnEveryTarget runs(g);
  runs.run();
  for (Executable& step : runs.executables) {
    step.set_learning_rate(0.5, "first");
    CHECK(step.learning_rate("second") == 0.2);
  }
  runs.run();
  for (Executable& step : runs.executables) {
    CHECK(step.read_scalar(told) == 0.5);
    CHECK(step.get("a")[0].item<double>() == doctest::Approx(0.4).epsilon(1e-12));
    CHECK(step.get("b")[0].item<double>() == doctest::Approx(0.6).epsilon(1e-12));
  }
  const Net named(Sgd{.lr = Settable{0.1}}, {.name = "only"});
  Executable step = compile(named.g, cpu_replay(), tests::plain_options());
  step.set_learning_rate(0.3);
  CHECK(step.learning_rate("only") == 0.3);
}

TEST_CASE("a schedule may end in a settable rate, and one that is lazy may be set") {
  Graph g("lazy");
  const Value rows = g.input("rows", i64, {3});
  const Value table = g.parameter("table", {f64, {7, 2}}, ones());
  g.minimize(sum(square(embedding_lookup(table, rows))),
             Adam{.lr = LearningRate(LinearWarmup{.lr = 0.1, .steps = 4}).then(4, Settable{0.01}),
                  .lazy = true});
  for (const Target& target : {cpu_replay(), stepwise(), tests::device_of_host()}) {
    Executable step = compile(g, target, tests::plain_options());
    for (int i = 0; i < 8; ++i) {
      if (i == 6) step.set_learning_rate(0.3);
      const at::Tensor before = step.get("table");
      step.run({{rows, at::tensor({1, 4, (i + 2) % 7}, at::kLong)}});
      const double moved = (before - step.get("table")).abs().max().item<double>();
      CAPTURE(i);
      CHECK(moved > (i < 6 ? 1e-3 : 0.2));
      CHECK(moved < (i < 4 ? 0.11 : i < 6 ? 0.02 : 0.4));
    }
  }
}

TEST_CASE("checkpoints keep what was set, and files of fixed numbers load") {
  const TemporaryFolder folder;
  const std::string file = folder.file("net.safetensors");
  const Net net(settable(AdamW{}, kPhases[0])), same(settable(AdamW{}, kPhases[0]));
  Executable step = compile(net.g, cpu_replay(), tests::plain_options());
  step.run({{net.x, batch(0)}});
  set(step, kPhases[1]);
  step.save(file);
  Executable other = compile(same.g, cpu_replay(), tests::plain_options());
  CHECK(other.load(file).empty());
  CHECK(other.learning_rate() == kPhases[1].lr);
  CHECK(other.weight_decay() == kPhases[1].weight_decay);
  CHECK(other.clip_norm() == kPhases[1].clip_norm);
  step.run({{net.x, batch(1)}}), other.run({{same.x, batch(1)}});
  for (const std::string& path : step.storages()) {
    CHECK_MESSAGE(at::equal(step.get(path), other.get(path)), path);
  }
  const Net plain(fixed(AdamW{}, kPhases[1]));
  Executable before = compile(plain.g, cpu_replay(), tests::plain_options());
  before.run({{plain.x, batch(0)}});
  const std::vector<std::string> lines = step.load(before.snapshot());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "the snapshot of graph \"net\": lacks 3 of the optimizer's 11 tensors, "
        "\"optimizer/clip_norm\", \"optimizer/learning_rate\", \"optimizer/weight_decay\": they "
        "start from their initial values");
  CHECK(lines[1].find("was saved under kernel choices") != std::string::npos);
  CHECK(step.learning_rate() == kPhases[0].lr);
}

TEST_CASE("what cannot be set is refused with the way out, and changes nothing") {
  const auto step_of = [](const Net& net) {
    return compile(net.g, cpu_replay(), tests::plain_options());
  };
  const Net fixed_net(Adam{}), settable_net(settable(Adam{}, kPhases[0]), {.name = "actor"});
  Executable is_fixed = step_of(fixed_net), is_settable = step_of(settable_net);
  CHECK(error_of([&] { is_fixed.set_learning_rate(0.1); }) ==
        "graph \"net\": the learning rate was not declared settable; give its optimizer .lr = "
        "mt::Settable{1e-3}");
  CHECK(error_of([&] { is_fixed.weight_decay(); }) ==
        "graph \"net\": the weight decay was not declared settable; give its optimizer "
        ".weight_decay = mt::Settable{0.01}");
  CHECK(error_of([&] { is_fixed.set_clip_norm(1); }) ==
        "graph \"net\": the norm to clip to was not declared settable; give its optimizer "
        ".clip_norm = mt::Settable{1}");
  CHECK(error_of([&] { is_settable.set_learning_rate(0.1, "critic"); }) ==
        "graph \"net\" has no objective \"critic\"; it has \"actor\"");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(error_of([&] { is_settable.set_learning_rate(-1, "actor"); }) ==
        "graph \"net\": cannot set what an optimizer refuses; it requires a finite learning rate "
        "of 0 or more, but -1");
  CHECK(error_of([&] { is_settable.set_weight_decay(nan); }) ==
        "graph \"net\": cannot set what an optimizer refuses; it requires a finite weight decay of "
        "0 or more, but nan");
  CHECK(error_of([&] { is_settable.set_clip_norm(0); }) ==
        "graph \"net\": cannot set what an optimizer refuses; it requires a finite norm to clip to "
        "above 0, but 0");
  CHECK(error_of([&] {
          is_settable.set("optimizer/learning_rate/actor", at::full({}, -1.0, at::kDouble));
        }) ==
        "graph \"net\": cannot set what an optimizer refuses; it requires a finite learning rate "
        "of 0 or more, but -1");
  CHECK(is_settable.learning_rate() == kPhases[0].lr);
  CHECK(is_settable.weight_decay() == kPhases[0].weight_decay);
  CHECK(is_settable.clip_norm() == kPhases[0].clip_norm);
  Graph empty("empty");
  empty.output("y", empty.input("x", f64, {1}) + 1.0);
  Executable evaluates = compile(empty, cpu_replay(), tests::plain_options());
  CHECK(error_of([&] { evaluates.set_learning_rate(1); }) ==
        "graph \"empty\" has no objective \"\"; it has none");
}

/// An optimizer of a user's own that keeps no states.
struct PlainWithRate : PlainOptimizer {
  LearningRate lr = 0.1;
  bool operator==(const PlainWithRate&) const = default;
};

TEST_CASE("declarations that could not keep a settable number are refused") {
  const auto message = [](const Optimizer& optimizer) {
    Graph g("g");
    g.minimize(sum(g.parameter("w", {f64, {2}}, ones())), optimizer, Line{"train.cc", 7});
    return error_of([&] { g.validate(); });
  };
  PlainWithRate plain;
  plain.lr = Settable{0.1};
  CHECK(message(plain) ==
        "train.cc:7: plain cannot train the graph\n  requires   a member function `states` for an "
        "lr that is settable or a plateau");
  CHECK(message(Adam{.lr = Settable{-1}}) ==
        "train.cc:7: adam cannot train the graph\n  requires   a finite learning rate of 0 or "
        "more, but -1");
  CHECK(message(Adam{.clip_norm = Settable{0}}) ==
        "train.cc:7: adam cannot train the graph\n  requires   a finite clip_norm above 0, but 0");
  CHECK(message(Adam{.weight_decay = Settable{0}, .lazy = true}) ==
        "train.cc:7: adam cannot train the graph\n  requires   no weight_decay for lazy, as most "
        "rows would miss theirs, but settable(0)");
  CHECK(message(Sgd{.lr = LearningRate(Settable{0.1}).then(5, Plateau{.lr = 0.2})}) ==
        "train.cc:7: sgd cannot train the graph\n  requires   one rate at most that is settable or "
        "a plateau, but settable(0.1) then at 5 plateau(lr=0.2 factor=0.1 patience=10 "
        "threshold=0.0001 cooldown=0 minimum=0 eps=1e-08 every=1000)");
}

// ---- states of a user's own rule ----------------------------------------------------------

/// Gradient descent by steps that sum to no more than 1: the n-th is half of what is left.
struct Halving {
  static constexpr std::string_view name = "halving";
  bool operator==(const Halving&) const = default;
  std::string attributes() const { return ""; }
  std::vector<Moment> moments() const { return {}; }
  std::vector<Moment> states() const { return {{"left", ones()}, {"lowest", constant(1e9)}}; }
  Values next_states(Value, Value loss, std::span<const Value> states) const {
    return {states[0] * 0.5, minimum(states[1], loss)};
  }
  Values scalars(Value, double rate, std::span<const Value> states) const {
    return {states[0] * (0.5 * rate)};
  }
  Values update(Value parameter, Value gradient, std::span<const Value>,
                std::span<const Value> scalars) const {
    return {parameter - gradient * scalars[0]};
  }
};

TEST_CASE("a rule of a user's own keeps scalars from update to update, under its guards") {
  Graph g("own");
  const Value x = g.input("x", f64, {});
  const Value w = g.parameter("w", {f64, {}}, ones());
  g.minimize(w * x, Halving{}, {.name = "h", .when = x > 0.0});
  for (const Target& target : {cpu_replay(), stepwise(), tests::device_of_host()}) {
    Executable step = compile(g, target, tests::plain_options());
    const auto number = [&](const char* path) { return step.get(path).item<double>(); };
    step.run({{x, at::scalar_tensor(1.0, at::kDouble)}});
    CHECK(number("w") == 0.5);
    CHECK(number("optimizer/left/h") == 0.5);
    CHECK(number("optimizer/lowest/h") == 1);
    step.run({{x, at::scalar_tensor(-1.0, at::kDouble)}});
    CHECK(number("optimizer/left/h") == 0.5);
    CHECK(number("w") == 0.5);
    step.run({{x, at::scalar_tensor(1.0, at::kDouble)}});
    CHECK(number("w") == 0.25);
    CHECK(number("optimizer/left/h") == 0.25);
    CHECK(number("optimizer/lowest/h") == 0.5);
  }
}

struct TooFewStates : Halving {
  static constexpr std::string_view name = "too_few";
  bool operator==(const TooFewStates&) const = default;
  Values next_states(Value, Value, std::span<const Value>) const { return {}; }
};
struct WrongState : Halving {
  static constexpr std::string_view name = "wrong_state";
  bool operator==(const WrongState&) const = default;
  Values next_states(Value update, Value, std::span<const Value> states) const {
    return {update, states[1]};
  }
};
struct NamelessState : Halving {
  static constexpr std::string_view name = "nameless";
  bool operator==(const NamelessState&) const = default;
  std::vector<Moment> states() const { return {{"a/b", ones()}}; }
};

TEST_CASE("a rule whose states go wrong is refused") {
  const auto message = [](const Optimizer& optimizer) {
    Graph g("g");
    g.minimize(sum(g.parameter("w", {f64, {2}}, ones())), optimizer, Line{"train.cc", 7});
    return error_of([&] { compile(g, cpu_replay(), tests::plain_options()); });
  };
  CHECK(message(TooFewStates{}) ==
        "train.cc:7: too_few cannot advance its states\n  requires   as many as it has, 2, but 0");
  CHECK(message(WrongState{}) ==
        "train.cc:7: wrong_state cannot advance its states\n  requires   the next value of "
        "\"left\" of type f64[], but i64[]");
  CHECK(message(NamelessState{}) ==
        "train.cc:7: nameless cannot keep its states\n  requires   states of names of their own, "
        "of one letter or more without '/', but \"a/b\"");
}

// ---- plateaus -----------------------------------------------------------------------------

TEST_CASE("a plateau lowers the rate where the loss falls no more, on every target") {
  Graph g("plateau");
  const Value loss = g.input("loss", f64, {});
  const Value w = g.parameter("w", {f64, {}}, ones());
  const Plateau plateau{.lr = 0.8,
                        .factor = 0.5,
                        .patience = 1,
                        .threshold = 0.1,
                        .cooldown = 1,
                        .minimum = 0.15,
                        .every = 2};
  g.minimize(w * 0.0 + loss, Sgd{.lr = LearningRate(0.8).then(2, plateau)});
  const Value told = g.learning_rate();
  // Two updates at the constant rate, then looks at the mean of two losses each.
  const std::vector<double> losses = {9, 9, 4, 2, 2, 2,  1.9, 1.9,   1.8,   2,  1,  3,  1,  3,  1,
                                      3, 1, 3, 1, 3, -1, -1,  -1.05, -1.05, -2, -2, -2, -2, -2, -2};
  //  looks:  3 best; 2 best; 1.9 bad; 1.9 bad -> lower, rest 1; 2 rests; 2 bad; 2 bad -> lower;
  //          2 rests; 2 bad; -1 best; -1.05 bad; -2 best; -2 bad; -2 bad -> the minimum
  const std::vector<double> rates = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8,
                                     0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2,
                                     0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2};
  for (const Target& target : tests::targets()) {
    Executable step = compile(g, target, tests::plain_options());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      CAPTURE(i);
      step.run({{loss, at::scalar_tensor(losses[i], at::kDouble)}});
      CHECK(step.read_scalar(told) == rates[i]);
    }
    CHECK(step.learning_rate() == 0.15);
    step.set_learning_rate(0.7);
    step.run();
    CHECK(step.read_scalar(told) == 0.7);
  }
}

}  // namespace
}  // namespace metronome::settable_numbers_test
