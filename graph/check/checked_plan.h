// A plan under check, and the facts that the checker's parts find out for each other. It shares no
// code with the planner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/check/check_guards.h"
#include "graph/check/check_insides.h"
#include "graph/check/check_lives.h"
#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/schedule.h"

namespace metronome::check {

/// A mistake, in words; nothing if all is well.
using Mistake = std::optional<std::string>;
/// Bytes of scratch [node], or empty if no node needs any.
using Sizes = std::vector<std::size_t>;

/// A plan under check. The references must outlive it; it stays where it was made.
struct CheckedPlan {
  /// The order must have passed `check_order`.
  CheckedPlan(const ir::Graph& g, const plan::Schedule& s, const Sizes& scratch_bytes,
              const plan::MemoryPlan& p, const Settings& settings);
  CheckedPlan(const CheckedPlan&) = delete;
  CheckedPlan& operator=(const CheckedPlan&) = delete;

  int steps() const { return static_cast<int>(schedule.order.size()); }
  std::int32_t outputs(std::int32_t node) const;
  /// True for an output that only the gradient of its op reads.
  bool is_saved(ValueId id) const;
  /// True if no step runs both nodes.
  bool exclude(std::int32_t a, std::int32_t b) const;
  const plan::Place& place_of(ValueId id) const { return plan.places[id.node][id.output]; }

  /// f32[16] "linear".
  std::string name(ValueId id) const { return ValueLives::name(graph, id); }
  /// arena byte 64.
  std::string name(const plan::Place& place) const;
  /// storage "w". The offset of `place` does not count.
  std::string memory_name(const plan::Place& place) const;
  /// scratch of "linear".
  std::string scratch_name(std::int32_t node) const;

  const ir::Graph& graph;
  const plan::Schedule& schedule;
  const Sizes& scratch;
  const plan::MemoryPlan& plan;
  const std::size_t alignment;
  const ValueLives lives;
  const GuardFacts guards;
  /// Roots that must lie beside the arena, and where: found by `find_fixed`.
  std::map<ValueId, plan::Place> fixed;
  /// Found once `fixed` is.
  Insides insides;
  /// [value] the step that wrote over it in place: found by `check_writes`.
  std::map<ValueId, int> taken_over;
};

}  // namespace metronome::check
