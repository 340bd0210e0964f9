// Arenas of the shipped models beside their lower bounds, whatever kernels they are planned for.
#include <fmt/format.h>

#include "models/models.h"
#include "tests/doctest.h"

namespace metronome::arena_test {
namespace {

TEST_CASE("every model's arena is its lower bound, or at most 1 % above") {
  for (const models::Scale scale : {models::Scale::small, models::Scale::full}) {
    for (const models::ModelEntry& entry : models::all_models()) {
      const models::Model model = entry.make(scale, f32);
      const Executable step = compile(
          model.graph, cpu_replay(), {.modes = {train, evaluate}, .threads = 1, .tune = Tune::off});
      for (const PlanReport& plan : step.report().plans) {
        const auto arena = static_cast<double>(plan.arena_bytes);
        const auto bound = static_cast<double>(plan.lower_bound);
        fmt::print("{:<18} {:<5} {:<8} arena {:>9} bytes, at least {:>9}: {:.4f}\n", entry.name,
                   scale == models::Scale::small ? "small" : "full", name_of(plan.mode),
                   plan.arena_bytes, plan.lower_bound, arena / bound);
        CAPTURE(entry.name);
        CHECK(arena <= 1.01 * bound);
      }
    }
  }
}

}  // namespace
}  // namespace metronome::arena_test
