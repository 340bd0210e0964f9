// The ways out that messages name, followed: what a message advises compiles, runs, and does what
// was asked for.
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/run_error.h"

namespace metronome::ways_out_test {
namespace {

using tests::plain_options;
using tests::run_error;

/// An actor and a critic, each with a loss.
struct Agent {
  Graph g{"agent"};
  Value x = g.input("x", f64, {4, 3});
  Value actor = mean(square(x.scope("actor", linear(1)) - 1.0));
  Value critic = mean(square(x.scope("critic", linear(1)) + 1.0));
};

at::Tensor batch() { return at::linspace(-1, 1, 12, at::kDouble).reshape({4, 3}); }

TEST_CASE("a second loss: their sum, with a rate for a part of the model, trains as two would") {
  Agent both;
  both.g.minimize(both.actor + both.critic, Sgd{.lr = 0.1});
  both.g.scale_learning_rate("critic", 0.5);
  Executable step = compile(both.g, cpu_replay(), plain_options());
  for (const char* part : {"actor", "critic"}) {
    CAPTURE(part);
    const bool is_actor = std::string(part) == "actor";
    Agent one;
    one.g.minimize(is_actor ? one.actor : one.critic, Sgd{.lr = is_actor ? 0.1 : 0.05});
    one.g.freeze(is_actor ? "critic" : "actor");
    Executable alone = compile(one.g, cpu_replay(), plain_options());
    const std::string weight = std::string(part) + "/linear/weight";
    alone.set(weight, step.get(weight));
    alone.run({{one.x, batch()}});
    Executable again = compile(both.g, cpu_replay(), plain_options());
    again.run({{both.x, batch()}});
    CHECK(at::allclose(again.get(weight), alone.get(weight), 1e-12, 0));
  }
}

TEST_CASE("two models that share a part: it goes from one to the other by get and set") {
  Graph large("large"), small("small");
  for (Graph* g : {&large, &small}) {
    const Value h = g->input("x", f64, {4, 3}).scope("body", linear(5));
    const Value y = h.scope("head", linear(g == &large ? 7 : 2));
    g->output("h", h);
    g->minimize(mean(square(y)), Adam{});
  }
  CHECK_THROWS_AS(compile({&large, &small}, cpu_replay(), plain_options()), GraphError);
  Executable from = compile(large, cpu_replay(), plain_options());
  Executable to = compile(small, cpu_replay(), plain_options());
  from.run({{"x", batch()}});
  std::vector<std::string> moved;
  for (const std::string& path : from.storages()) {
    if (path.find("body/") == std::string::npos) continue;
    to.set(path, from.get(path));
    moved.push_back(path);
  }
  CHECK(moved.size() == 6);  // weight and bias, each with two moments
  from.run({{"x", batch()}});
  to.run({{"x", batch()}});
  CHECK(from.read("h").equal(to.read("h")));
}

}  // namespace
}  // namespace metronome::ways_out_test
