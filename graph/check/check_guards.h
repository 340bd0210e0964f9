// The guards that can be true in one step, for the checker of plans. It shares no code with the
// planner: it writes down which outcomes the deciders must have, and tries all that are open.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::check {

/// The guards of a graph's nodes.
class GuardFacts {
 public:
  /// If the target does not skip nodes, none is guarded.
  GuardFacts(const ir::Graph& graph, bool skips) : graph_(graph), skips_(skips) {}

  /// Absent: always.
  ValueId of(std::int32_t node) const { return skips_ ? graph_.nodes()[node].guard : ValueId{}; }
  /// True if no step has both.
  bool exclude(ValueId a, ValueId b) const;

 private:
  /// A value that decides, clamped to so many cases; or a boolean guard without a rule, with 0.
  using Decider = std::pair<ValueId, std::int64_t>;
  using Outcomes = std::map<Decider, std::int64_t>;
  enum class Truth { no, yes, open };

  Truth truth(ValueId guard, const Outcomes& known, Decider& open) const;
  bool require(ValueId guard, Outcomes& known, std::vector<ValueId>& never) const;
  bool possible(const std::vector<ValueId>& never, const Outcomes& known) const;

  const ir::Graph& graph_;
  const bool skips_;
  mutable std::map<std::pair<ValueId, ValueId>, bool> asked_;
};

}  // namespace metronome::check
