// Plans that keep to the memory budget, as they compute values again.
#pragma once

#include <cstddef>

#include "executor/engine/kernels.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// Returns a plan of the same step that computes values again where it would keep them, and whose
/// arena takes at most the budget, for the least time that was found; where none keeps to the
/// budget, the smallest that was found. `settings` are those that the plan
/// was made with. Kernels that may run again are timed (`Tune::measure`), else reckoned by
/// operations and bytes. The tuning file keeps the choice, so that other processes, and other
/// ranks, make the same.
Plan fit_to_budget(const Plan& plan, std::size_t budget, const Settings& settings,
                   const Kernels& kernels, const CompileOptions& options, Report& report);

}  // namespace metronome::executor::compile
