// The choice of values that a step computes again, so that it holds no more bytes than a limit.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/recomputation.h"
#include "graph/plan/recompute_model.h"
#include "graph/plan/schedule.h"

namespace metronome::plan {

struct ChosenRecomputation {
  Recomputation made;
  std::size_t peak_bytes = 0;  ///< held at the fullest moment, by a sketch that knows no exclusions
  double seconds = 0;          ///< that the clones take
};

/// Returns the choice that takes the fewest seconds of those found whose peak is at most `limit`
/// bytes; where there is none, the one of the lowest peak. Without clones where nothing helps. With
/// a limit of 0 seconds decide nothing. `scratch_bytes` has one entry per node. `work` bounds the
/// runs of nodes that are looked at: a hundred million take about a second. Deterministic.
ChosenRecomputation choose_recomputed(const ir::Graph& graph, const Schedule& schedule,
                                      const std::vector<std::size_t>& scratch_bytes,
                                      const SecondsOfNode& seconds, std::size_t limit,
                                      std::size_t work, const Settings& settings);

/// The same choice again, known by its split and by what it drops.
Recomputation repeat_recomputation(const ir::Graph& graph, const Schedule& schedule,
                                   std::int32_t split, const std::vector<ValueId>& dropped,
                                   const Settings& settings);

}  // namespace metronome::plan
