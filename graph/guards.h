// What guards say of each other: which implies which, which can never both be true.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph/node.h"

namespace metronome {

class Graph;

/// A guard that is true in a step, or is not. An absent guard is always true.
struct GuardFact {
  ValueId guard;
  bool holds = true;

  auto operator<=>(const GuardFact&) const = default;
};

/// Reads the `Guard` nodes of a graph: a guard is "the decider's outcome is so, and the parent is
/// true". Deciders that are no guards may have any outcome.
class Guards {
 public:
  /// The nodes may grow meanwhile.
  explicit Guards(const std::vector<Node>& nodes) : nodes_(&nodes) {}
  /// The graph is kept.
  explicit Guards(const Graph& graph);

  /// True where all facts can hold in one step.
  bool possible(std::span<const GuardFact> facts) const;
  /// True where `b` is true in every step in which `a` is.
  bool implies(ValueId a, ValueId b) const;
  bool implies(std::vector<GuardFact> facts, ValueId b) const;
  /// True where no step has both.
  bool exclude(ValueId a, ValueId b) const;

 private:
  const std::vector<Node>* nodes_;
  mutable std::map<std::pair<ValueId, ValueId>, bool> implied_, excluded_;
};

/// Facts under which operand `operand` of a node is read: its guard, and what the op's `read_if`
/// says.
std::vector<GuardFact> read_under(const Node& node, std::size_t operand);

}  // namespace metronome
