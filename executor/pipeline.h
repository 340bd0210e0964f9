// The table of passes.
#pragma once

#include "executor/report.h"
#include "graph/graph.h"
#include "graph/passes/settings.h"

namespace metronome {

/// The declared graph after all passes of one mode, verified after each.
Graph run_passes(const Graph& declared, const Settings& settings, PlanReport& plan, Report& report);

}  // namespace metronome
