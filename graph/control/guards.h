// What guards say of each other: which implies which, which can never both be true.
#pragma once

#include <span>
#include <vector>

#include "graph/control/consequences.h"
#include "graph/ir/node.h"

namespace metronome::control {

/// Reads the `Guard` nodes of a graph: a guard is "the decider's outcome is so, and the parent is
/// true". Deciders that are no guards may have any outcome.
class Guards {
 public:
  /// The nodes are kept, and may grow meanwhile.
  explicit Guards(const std::vector<Node>& nodes) : nodes_(&nodes) {}

  /// True where all facts can hold in one step.
  bool possible(std::span<const GuardFact> facts) const;
  /// True where `b` is true in every step in which `a` is.
  bool implies(ValueId a, ValueId b) const;
  bool implies(std::vector<GuardFact> facts, ValueId b) const;
  /// True where no step has both.
  bool exclude(ValueId a, ValueId b) const;
  /// What follows where the guard, which is present, is true.
  const Known& known(ValueId guard) const { return consequences_.of(*nodes_, guard); }

 private:
  const std::vector<Node>* nodes_;
  mutable Consequences consequences_;
};

/// True where all facts can hold in one step. `consequences` is what was asked of these nodes, or
/// of the first of them, before.
bool possible(const std::vector<Node>& nodes, Consequences& consequences,
              std::span<const GuardFact> facts);

/// Facts under which operand `operand` of a node is read: its guard, and what the op's `read_if`
/// says.
std::vector<GuardFact> read_under(const Node& node, std::size_t operand);

}  // namespace metronome::control
