// From a declared graph to its plan: passes, kernels, order, memory, check. Defined on the page,
// compile.cc.
#pragma once

#include "executor/compile/run_passes.h"
#include "executor/engine/backend.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"

namespace metronome::executor::compile {

/// Returns the settings of a mode for passes, the planner and its check.
Settings settings_of(const Backend& backend, Mode mode);

/// The plan with those settings, their buckets among them. `report` gains its choices, and the
/// parameters that the loss does not reach.
Plan make_plan(const PlanInput& declared, const Settings& settings, const Kernels& kernels,
               const CompileOptions& options, Report& report);

/// The plan of the same graph and choices with its order, its memory, checked, and its report.
Plan place(Plan plan, const Settings& settings);

}  // namespace metronome::executor::compile
