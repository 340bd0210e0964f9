// Weights that no step changes are packed once: programs that only act compute the bits of the one
// that trains, whatever is put into their storages between steps.
#include <string>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/targets.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::packed_weights_test {
namespace {

using tests::plain_options;

/// The policy's graph for so many rows; one that trains has a loss.
struct Policy {
  Graph graph{"policy"};
  Value seen, action;
  Policy(std::int64_t rows, bool trains) : seen(graph.input("seen", f32, {rows, 8})) {
    action = tanh(seen.through(linear(33))).through(linear(65)).through(linear(3));
    graph.output("action", action);
    if (trains) graph.minimize(mean(square(action - 1.0)), Sgd{.lr = 0.1});
  }
};

CompileOptions options_to(std::vector<Mode> modes) {
  CompileOptions options = plain_options();
  options.modes = std::move(modes);
  options.kernels = Family::own;
  options.threads = 1;
  return options;
}

bool packs(const Executable& step) {
  return to_string(step.report()).find("own, packed once") != std::string::npos;
}

at::Tensor observed(std::int64_t rows) {
  at::manual_seed(static_cast<std::uint64_t>(rows));
  return at::randn({rows, 8});
}

at::Tensor act(Executable& step, std::int64_t rows) {
  step.evaluate({{"seen", observed(rows)}});
  return step.read("action").clone();
}

}  // namespace

TEST_CASE("a program that only acts packs its weights once, and acts as the one that trains") {
  const Policy trained(4, true), one(1, false), four(4, false);
  const TemporaryFolder folder;
  const std::string file = folder.file("policy.safetensors");
  for (const Target& target : {cpu_replay(), stepwise()}) {
    Executable trains = compile(trained.graph, target, options_to({train, evaluate}));
    Executable acts = compile({&one.graph, &four.graph}, target, options_to({evaluate}));
    CHECK(!packs(trains));
    CHECK(packs(acts));
    const auto acts_alike = [&] {
      const at::Tensor actions = act(trains, 4);
      CHECK(at::equal(act(acts, 4), actions));
      acts.evaluate({{"seen", observed(4).slice(0, 2, 3)}});
      CHECK(at::allclose(acts.read("action")[0], actions[2], 1e-5, 1e-6));
      return actions;
    };
    at::Tensor before;
    const auto differs = [&](const at::Tensor& actions) {
      CHECK((!before.defined() || !at::equal(actions, before)));
      before = actions;
    };
    for (int step = 0; step < 3; ++step) {
      trains.run({{"seen", observed(4)}});
      acts.load(trains.snapshot(), {.strict = false});
      differs(acts_alike());
    }
    const at::Tensor weight = at::randn({65, 33});
    trains.set("linear_1/weight", weight);
    acts.set("linear_1/weight", weight);
    differs(acts_alike());
    trains.run({{"seen", observed(4)}});
    trains.save(file, {});
    acts.load(file, {});
    differs(acts_alike());
  }
}

TEST_CASE("a graph without a loss packs its weights in run, too") {
  const Policy four(4, false);
  Executable step = compile(four.graph, cpu_replay(), options_to({train}));
  CHECK(packs(step));
  for (const double number : {0.5, -0.25}) {
    step.set("linear_2/weight", at::full({3, 65}, number));
    step.run({{"seen", observed(4)}});
    const auto get = [&](const char* path) { return step.get(path); };
    const at::Tensor h =
        at::tanh(at::linear(observed(4), get("linear/weight"), get("linear/bias")));
    const at::Tensor action =
        at::linear(at::linear(h, get("linear_1/weight"), get("linear_1/bias")),
                   get("linear_2/weight"), get("linear_2/bias"));
    CHECK(at::allclose(step.read("action"), action, 1e-5, 1e-5));
  }
}

TEST_CASE("averages in the place of parameters are packed anew when they are loaded") {
  Graph graph("averaged");
  const Value seen = graph.input("seen", f32, {4, 8});
  const Value action = seen.through(linear(20)).through(linear(3));
  graph.output("action", action);
  graph.minimize(mean(square(action - 1.0)), Sgd{.lr = 0.1});
  graph.average("**", {.decay = 0.5});
  Executable trains = compile(graph, cpu_replay(), options_to({train, evaluate})),
             acts = compile(graph, cpu_replay(), options_to({evaluate}));
  for (int step = 0; step < 3; ++step) {
    trains.run({{"seen", observed(4)}});
    acts.load(trains.snapshot());
    for (const char* with : {"ema", ""}) {
      trains.evaluate({{"seen", observed(4)}}, {.with = with});
      acts.evaluate({{"seen", observed(4)}}, {.with = with});
      CHECK(at::equal(acts.read("action"), trains.read("action")));
    }
  }
}

}  // namespace metronome::packed_weights_test
