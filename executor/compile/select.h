// The choice of the kernel that runs each node.
#pragma once

#include <string>
#include <vector>

#include "executor/engine/kernels.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"
#include "ops/rules/candidate.h"
#include "ops/rules/own_rules.h"

namespace metronome::executor::compile {

/// One choice per node of the graph (empty for nodes without a kernel). It is the first of these
/// that there is, as far as `options.tune` allows: the preferred maker's candidate; the tuning
/// file's entry; the fastest candidate, timed on scratch memory if there is room; the op's fixed
/// rule. Each distinct (op, types) is decided once. `parameters_stay`: no plan beside this one
/// changes a parameter, so that kernels may keep what they make of one. New timings are added to
/// the tuning file
/// (`options.tuning_file`; empty: none); one that cannot be written is a warning.
/// `report` gains one line per decision among several candidates: "... -> mkl (timed)"; "(timed by
/// launches)" where a device's commands could not be captured, so that the host's part is in it.
/// `plan` gains the same with all candidates.
std::vector<Candidate> select(const ir::Graph& graph, const Kernels& kernels,
                              const CompileOptions& options, bool parameters_stay, PlanReport& plan,
                              Report& report);

/// Throws RunError, which says what to do, for the first node that `target` has no kernel for.
void require_kernels(const ir::Graph& graph, const Kernels& kernels, const OwnOps& ops,
                     const std::string& target);

}  // namespace metronome::executor::compile
