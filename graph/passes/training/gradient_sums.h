// The contributions to each value's gradient on the way back, and the guards under which they are
// made.
#pragma once

#include <map>
#include <vector>

#include "graph/control/regions.h"
#include "graph/emit/emitter.h"
#include "graph/ir/graph.h"

namespace metronome::passes {

/// Contributions to the gradients of a graph's values. Those that are made under the value's own
/// guard are summed at once. Others whose guards exclude each other and together cover the value's
/// guard are joined by `merge`; the rest become a sum that begins as the first, or as zero where
/// the first does not count, and takes each other contribution where it was made.
class GradientSums {
 public:
  struct Contribution {
    Value value;
    std::vector<control::GuardFact>
        when;  ///< beside the target's guard; sorted, none follows from others
  };

  /// The emitter is kept.
  explicit GradientSums(Emitter& emitter)
      : emitter_(emitter), graph_(emitter.graph), regions_(graph_.nodes()) {}

  /// False where no step has both the target and the facts: a branch that another one excludes.
  bool counts(ValueId target, std::vector<control::GuardFact> when) const;
  /// A contribution that is computed, and counts, where all facts hold.
  void add(ValueId target, Value contribution, std::vector<control::GuardFact> when);
  /// Returns the contributions added so far, unjoined.
  const std::vector<Contribution>& contributions(ValueId target) { return pending_[target]; }
  /// The gradient of a value to which nothing is added any more; absent where nothing was.
  Value of(ValueId target);

 private:
  std::vector<control::GuardFact> drop_implied(ValueId target,
                                               std::vector<control::GuardFact> facts) const;
  /// A guard that is true where `outer` and all facts hold.
  Value guard_of(ValueId outer, const std::vector<control::GuardFact>& facts) const;
  bool partition(ValueId outer, const std::vector<Contribution>& parts) const;
  Value merge(ValueId outer, std::vector<Contribution> parts) const;
  Value accumulate(ValueId outer, const std::vector<Contribution>& parts) const;

  Emitter& emitter_;
  const ir::Graph& graph_;
  control::Regions regions_;
  std::map<ValueId, std::vector<Contribution>> pending_;
  std::map<ValueId, Value> done_;
};

}  // namespace metronome::passes
