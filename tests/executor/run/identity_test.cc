// An executable knows its graph's values when the graph is gone, and takes no other graph's.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <optional>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::identity_test {
namespace {

using tests::untuned;

/// y = w x, loss = mean((y - t)^2), w = 1 at the beginning.
struct Scaled {
  std::optional<Graph> g = Graph("scaled");
  Value x = g->input("x", f32, {2});
  Value t = g->input("t", f32, {2});
  Value y = x * g->parameter("w", Type{f32, {}}, ones());
  Value loss = mse_loss(y, t);
  Scaled() {
    g->minimize(loss, Sgd{.lr = 0.1});
    g->output("y", y);
  }
};

TEST_CASE("an executable is fed and read by values of a graph that was destroyed") {
  for (const Target& target : {cpu_replay(), stepwise(), eager(), null()}) {
    Scaled s;
    Executable step = compile(*s.g, target, untuned());
    s.g.reset();
    step.run({{s.x, at::ones({2})}, {s.t, at::zeros({2})}});
    step.input(s.x).fill_(1);
    step.run({{s.t, at::zeros({2})}});
    if (step.report().target == "null") continue;  // computes nothing
    CHECK(step.read(s.y)[0].item<float>() == doctest::Approx(0.8));
    CHECK(step.read_scalar(s.loss) == doctest::Approx(0.64));
  }
}

TEST_CASE("values of later graphs are refused, wherever those lie in memory") {
  auto old = std::make_unique<Scaled>();
  Executable step = compile(*old->g, cpu_replay(), untuned());
  step.run({{old->x, at::ones({2})}, {old->t, at::zeros({2})}});
  old.reset();
  for (int i = 0; i < 50; ++i) {
    const auto other = std::make_unique<Scaled>();
    CHECK_THROWS_WITH_AS(
        step.run({{other->x, at::ones({2})}}),
        "graph \"scaled\": the value that is fed is of another graph, \"scaled\", not "
        "one of its inputs, which are \"x\", \"t\"",
        RunError);
    CHECK_THROWS_WITH_AS(
        step.input(other->x),
        "graph \"scaled\": the value that is fed is of another graph, \"scaled\", not "
        "one of its inputs, which are \"x\", \"t\"",
        RunError);
    CHECK_THROWS_WITH_AS(step.read(other->y),
                         "graph \"scaled\": the value that is read is of another graph, "
                         "\"scaled\"; kept are \"loss\", \"y\"",
                         RunError);
    CHECK_THROWS_WITH_AS(step.read_scalar(other->loss),
                         "graph \"scaled\": the value that is read is of another graph, "
                         "\"scaled\"; kept are \"loss\", \"y\"",
                         RunError);
  }
}

TEST_CASE("compile refuses a graph that was moved from, and takes the one that it was moved to") {
  Scaled s;
  Graph moved(std::move(*s.g));
  CHECK_THROWS_WITH_AS(compile(*s.g, cpu_replay(), untuned()),
                       "a graph is used that was moved from\n"
                       "  way out    use the graph that it was moved to",
                       GraphError);
  Executable step = compile(moved, cpu_replay(), untuned());
  step.run({{s.x, at::ones({2})}, {s.t, at::zeros({2})}});
  CHECK(step.read_scalar(s.loss) == doctest::Approx(1));
}

}  // namespace
}  // namespace metronome::identity_test
