// The graph that a call runs, of several, where shapes alone do not say it.
//
//   explore  obs [1, 3], noise [1, 1]   action = tanh(w obs) + noise
//   policy   obs [1, 3]                 action = tanh(w obs)
//   value    obs [1, 3]                 score = v obs
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/options.h"
#include "tests/executor/targets.h"

namespace metronome::graph_choice_test {
namespace {

using tests::error_of;
using tests::plain_options;
using tests::targets;

struct Agent {
  Graph explore{"explore"}, policy{"policy"}, value{"value"};
  Value noisy_obs = explore.input("obs", f64, {1, 3}), noise = explore.input("noise", f64, {1, 1});
  Value obs = policy.input("obs", f64, {1, 3}), seen = value.input("obs", f64, {1, 3});
  Agent() {
    explore.output("action", tanh(noisy_obs.through(linear(1))) + noise);
    policy.output("action", tanh(obs.through(linear(1))));
    value.output("score", seen.scope("critic", linear(1)));
  }
  Executable compiled(const Target& target) const {
    Executable step = compile({{&explore, {evaluate}}, {&policy, {evaluate}}, {&value, {evaluate}}},
                              target, plain_options());
    step.evaluate({{noisy_obs, at::ones({1, 3}, at::kDouble)},
                   {noise, at::full({1, 1}, 100.0, at::kDouble)}});
    return step;
  }
};

at::Tensor observed() { return at::tensor({0.1, -0.2, 0.3}, at::kDouble).reshape({1, 3}); }

/// The action without noise; with the noise that was fed before it is above 99.
at::Tensor greedy(const Executable& step) {
  return at::tanh(at::linear(observed(), step.get("linear/weight"), step.get("linear/bias")));
}

bool is_greedy(const Executable& step) {
  return at::allclose(step.read("action"), greedy(step), 0, 1e-12);
}

constexpr const char* kSeveral =
    "graph \"explore\": the feeds fit several graphs that are compiled to evaluate\n"
    "  \"explore\"  obs [1, 3], noise [1, 1]\n"
    "  \"policy\"   obs [1, 3]\n"
    "  \"value\"    obs [1, 3]\n"
    "  way out    feed a value of the graph that is meant in place of a name, or give a value or "
    "the name of it as the option `graph`";

TEST_CASE("feeds by name that fit several graphs are refused, and both ways out work") {
  const Agent agent;
  for (const Target& target : targets()) {
    Executable step = agent.compiled(target);
    CHECK(error_of<RunError>([&] { step.evaluate({{"obs", observed()}}); }) == kSeveral);
    step.evaluate({{agent.obs, observed()}});
    CHECK(is_greedy(step));
    step.evaluate({{agent.noisy_obs, observed()}});
    CHECK(at::allclose(step.read("action"), greedy(step) + 100, 0, 1e-12));
    step.evaluate({{"obs", observed()}}, {.graph = agent.obs});
    CHECK(is_greedy(step));
    step.evaluate({{"obs", observed()}}, {.graph = "explore"});
    CHECK(step.read("action").item<double>() > 99);
    step.evaluate({{"obs", observed()}}, {.graph = std::string("policy")});
    CHECK(is_greedy(step));
    step.evaluate({{"obs", observed()}, {"noise", at::zeros({1, 1}, at::kDouble)}});
    CHECK(is_greedy(step));  // one graph alone has a noise
  }
}

TEST_CASE("training steps and profiles pick their graph alike") {
  Graph large("net"), small("net");
  const auto declare = [](Graph& g, std::int64_t rows) {
    const Value x = g.input("x", f64, {rows}), scale = g.input("scale", f64, {});
    g.output("sum", sum(x) * scale);
    return x;
  };
  const Value of_large = declare(large, 8), of_small = declare(small, 2);
  Executable step = compile({&large, &small}, cpu_replay(), plain_options());
  const auto number = [](double n) { return at::full({}, n, at::kDouble); };
  step.run({{of_large, at::ones({8}, at::kDouble)}, {"scale", number(1)}});
  step.run({{of_small, at::ones({2}, at::kDouble)}, {"scale", number(2)}});
  constexpr const char* text =
      "graph \"net\": the feeds fit several graphs that are compiled to train\n"
      "  \"net\"  x [8], scale []\n"
      "  \"net\"  x [2], scale []\n"
      "  way out    feed a value of the graph that is meant in place of a name, or give a value of "
      "it as the option `graph`";
  CHECK(error_of<RunError>([&] { step.run({{"scale", number(3)}}); }) == text);
  CHECK(error_of<RunError>([&] { step.profile({{"scale", number(3)}}); }) == text);
  CHECK(error_of<RunError>([&] { step.run({{"scale", number(3)}}, {.graph = "net"}); }) == text);
  step.run({{"scale", number(3)}}, {.graph = of_large});
  CHECK(step.read("sum").item<double>() == 24);
  step.profile({{"scale", number(4)}}, {.graph = of_small});
  CHECK(step.read("sum").item<double>() == 8);
  step.run({}, {.graph = "net"});  // the one that was picked last
  CHECK(step.read("sum").item<double>() == 8);
}

TEST_CASE("graphs of one mode with equal inputs are told apart by their names") {
  const Agent agent;
  Graph again("policy");
  again.output("again", again.input("obs", f64, {1, 3}) * 2.0);
  CHECK_THROWS_WITH_AS(compile({{&agent.policy, {evaluate}}, {&again, {evaluate}}}),
                       "graphs 0 and 1 of \"policy\" cannot be compiled together\n"
                       "  both       obs [1, 3]\n"
                       "  requires   inputs of other shapes in each graph, or another name",
                       GraphError);
}

TEST_CASE("a call without feeds keeps the graph that was picked last") {
  const Agent agent;
  Executable step = agent.compiled(cpu_replay());
  step.evaluate({{agent.obs, observed()}});
  step.evaluate();
  CHECK(is_greedy(step));
  step.evaluate({}, {.graph = agent.noise});
  CHECK(step.read("action").item<double>() > 99);
  step.evaluate();
  CHECK(step.read("action").item<double>() > 99);
  step.input(agent.obs).copy_(observed());
  step.evaluate();
  CHECK(is_greedy(step));
}

TEST_CASE("an input that was filled by its value picks its graph for the next step") {
  const Agent agent;
  Executable step = agent.compiled(cpu_replay());
  step.input(agent.obs).fill_(7);
  step.evaluate({{"obs", observed()}});
  CHECK(is_greedy(step));
  CHECK(error_of<RunError>([&] { step.evaluate({{"obs", observed()}}); }) == kSeveral);
}

TEST_CASE("a value of a graph that does not take the feeds leaves it to their shapes") {
  const auto declare = [](Graph& g, std::int64_t rows) {
    const Value x = g.input("x", f64, {rows});
    g.output("sum", sum(x));
    return x;
  };
  Graph large("net"), small("net");
  const Value x = declare(large, 8);
  declare(small, 2);
  Executable step = compile({&large, &small}, cpu_replay(), plain_options());
  step.run({{x, at::ones({2}, at::kDouble)}});
  CHECK(step.read("sum").item<double>() == 2);
}

TEST_CASE("a choice of a graph that is not there is refused") {
  const Agent agent;
  Executable step = agent.compiled(cpu_replay());
  Graph other("other");
  const Value foreign = other.input("obs", f64, {1, 3});
  const auto evaluated = [&](const GraphChoice& graph) {
    return error_of<RunError>([&] { step.evaluate({{"obs", observed()}}, {.graph = graph}); });
  };
  CHECK(evaluated("polcy") ==
        "graph \"explore\": graph \"polcy\" is chosen, but compiled are \"explore\", \"policy\", "
        "\"value\"");
  CHECK(evaluated("") ==
        "graph \"explore\": graph \"\" is chosen, but compiled are \"explore\", \"policy\", "
        "\"value\"");
  CHECK(evaluated(foreign) ==
        "graph \"explore\": graph \"other\" is chosen, but compiled are \"explore\", \"policy\", "
        "\"value\"");
  CHECK(evaluated(Value{}) ==
        "graph \"explore\": the value that is to choose the graph is absent; compiled are "
        "\"explore\", \"policy\", \"value\"");
  Executable trained = compile({{&agent.policy, {train, evaluate}}, {&agent.explore, {evaluate}}});
  CHECK(error_of<RunError>([&] { trained.run({{"obs", observed()}}, {.graph = "explore"}); }) ==
        "graph \"policy\": graph \"explore\" is chosen, but compiled to train are \"policy\"");
  CHECK(error_of<RunError>([&] {
          step.evaluate({{"noise", at::zeros({1, 1}, at::kDouble)}}, {.graph = "policy"});
        }) ==
        "graph \"explore\": no graph that is compiled to evaluate and chosen has an input "
        "\"noise\"; their inputs are \"obs\"");
}

}  // namespace
}  // namespace metronome::graph_choice_test
