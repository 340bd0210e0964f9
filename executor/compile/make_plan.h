// From a declared graph to its plan: passes, kernels, order, memory, check.
#pragma once

#include "executor/compile/run_passes.h"
#include "executor/engine/backend.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "executor/engine/target.h"

namespace metronome::executor::compile {

/// What passes, the planner and its check are told of a mode by the back end, in each of its ways.
std::vector<Settings> settings_of(const Backend& backend, Mode mode);

/// The plan of one mode: of the ways that the back end asks for the one that it keeps. `report`
/// gains the plan, its choices, and the parameters that the loss does not reach. Throws RunError
/// where the plan does not keep to the memory budget.
Plan make_plan(const Declared& declared, Mode mode, const Backend& backend,
               const CompileOptions& options, Report& report);

/// The plan made in one way.
Plan make_plan(const Declared& declared, const Settings& settings, const Kernels& kernels,
               const CompileOptions& options, Report& report);

}  // namespace metronome::executor::compile
