// The parts of a report that compile knows.
#pragma once

#include <cstddef>
#include <string>

#include "executor/engine/backend.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"

namespace metronome::executor::compile {

/// The report of what is compiled for a back end, before its first plan.
Report begin_report(const std::string& graph, const Backend& backend,
                    const CompileOptions& options);

/// Fills the plan's report from what was decided.
void summarize(Plan& plan);

/// Adds the bytes of storages and the elements of parameters.
void add_sizes(const Memory& memory, Report& report);

/// How a plan came to its arena under a memory budget.
struct TriedBudget {
  std::size_t whole_bytes = 0;  ///< of the arena in which nothing is computed again
  bool recomputed = false;      ///< values are computed again, or that was tried
  bool may_recompute = false;   ///< the target can
};

/// Throws RunError, which lists the largest values, where the plan of the graph takes more.
void require_within(const PlanReport& plan, std::size_t budget, const TriedBudget& tried,
                    const std::string& graph);

}  // namespace metronome::executor::compile
