// The table of passes.
#pragma once

#include "executor/plan.h"
#include "executor/report.h"
#include "graph/graph.h"
#include "graph/passes/settings.h"

namespace metronome {

/// The declared graph after all passes of one mode, verified after each.
Graph run_passes(const Declared& declared, const Settings& settings, PlanReport& plan,
                 Report& report);

}  // namespace metronome
