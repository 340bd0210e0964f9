// Which kernel runs each node.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/engine/kernels.h"
#include "executor/engine/report.h"
#include "executor/engine/target.h"
#include "executor/support/room.h"
#include "graph/ir/graph.h"
#include "ops/rules/candidate.h"

namespace metronome::executor::compile {

struct SelectOptions {
  Tune tune = Tune::measure;
  std::string tuning_file = {};  ///< empty: none
  Family family = Family::usual;
  /// What values on the host may take, and candidates that are timed there; absent: not asked.
  std::optional<Room> room = {};
};

/// What METRONOME_KERNELS names; `usual` where it is not set. Throws RunError for other names.
Family family_of_environment();

/// One choice per node of the graph (empty for nodes without a kernel): the family's candidate
/// where there is one, else the tuning file's entry, else the fastest candidate timed on scratch
/// memory (where there is room), else the op's fixed rule. Each distinct (op, types) is decided
/// once. New timings are added to the tuning file; one that cannot be written is a warning.
/// `report` gains one line per decision among several candidates: "... -> mkl (timed)"; "(timed by
/// launches)" where a device's commands could not be captured, so that the host's part is in it.
std::vector<Candidate> select(const ir::Graph& graph, const Kernels& kernels,
                              const SelectOptions& options, Report& report);

}  // namespace metronome::executor::compile
