#include "executor/metronome.h"
#include "tests/doctest.h"

namespace metronome::tests {
namespace {

/// Branches of several widths, whose values live for several lengths of time.
Graph branches() {
  Graph g("branches");
  const Value x = g.input("x", f32, {8, 16});
  Values made;
  for (const std::int64_t width : {48, 16, 80, 32, 112}) {
    made.push_back(x.through(linear(width)).through(tanh).through(linear(24)).through(relu));
  }
  Value sum = made[0] * made[4];
  for (const Value& each : made) sum = sum + each.through(linear(24));
  g.minimize(mean(sum * sum), Sgd{.lr = 0.1});
  return g;
}

}  // namespace

TEST_CASE("with work of its own the planner goes on to an arena that is proven to be the least") {
  const Graph g = branches();
  const auto plan = [&](std::optional<std::size_t> work) {
    CompileOptions options{.threads = 1, .tune = Tune::off};
    options.plan_work = work;
    return compile(g, cpu_replay(), options).report().plans[0];
  };
  const PlanReport usual = plan(std::nullopt), long_searched = plan(1'000'000'000);
  CHECK(long_searched.arena_bytes <= usual.arena_bytes);
  CHECK(long_searched.arena_bytes == long_searched.least_bytes);
  CHECK(usual.arena_bytes <= usual.least_bytes + usual.least_bytes / 100);
}

}  // namespace metronome::tests
