// The values that a plan lays inside others, for the checker of plans. It shares no code with the
// planner.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "graph/check/check_lives.h"
#include "graph/ir/graph.h"
#include "graph/plan/memory_plan.h"

namespace metronome::check {

/// An operand that lies where its op would copy it to is no clash with the result, the whole: from
/// then on its bytes are the whole's, which are held while either is read.
class Insides {
 public:
  Insides() = default;
  /// `fixed(value)`: whether a root must lie beside the arena. `lives` outlives this.
  Insides(const ir::Graph& graph, const ValueLives& lives, const plan::MemoryPlan& plan,
          const std::function<bool(ValueId)>& fixed);

  bool contains(ValueId part) const { return wholes_.contains(part); }
  bool contains(ValueId part, ValueId whole) const;
  /// Returns the life of a root, with the lives of the values inside it as part of its own.
  const ValueLife& life_of(ValueId id) const;

 private:
  const ValueLives* lives_ = nullptr;
  std::map<ValueId, ValueId> wholes_;  // what a value lies inside of
  std::map<ValueId, ValueLife> held_;  // of wholes
};

}  // namespace metronome::check
