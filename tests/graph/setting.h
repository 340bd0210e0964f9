// The guards of a graph that are true in one step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/ir/graph.h"
#include "graph/ir/guarded.h"
#include "graph/rules/guards.h"

namespace metronome::testing {

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 29);
}

/// The outcome of all that decides in one step: any outcome of anything, the same for the same
/// number; without a number all guards hold.
struct Setting {
  const ir::Graph& graph;
  std::optional<std::uint64_t> number = {};

  bool holds(ValueId guard) const {
    if (!guard.present() || !number) return true;
    const Node& node = graph.node(guard);
    const Guard* rule = node.op->as<Guard>();
    if (rule == nullptr) return mix(*number, guard.node) % 2 == 1;
    if (rule->nested && !holds(node.inputs[1])) return false;
    const ValueId decider = node.inputs[0];
    if (graph.node(decider).op->as<Guard>() != nullptr) return holds(decider) == (rule->when == 1);
    const auto cases = static_cast<std::uint64_t>(rule->cases);
    return static_cast<std::int64_t>(mix(*number, decider.node) % cases) == rule->when;
  }
  /// True if `node`, which runs, reads the operand.
  bool reads(const Node& node, std::size_t operand) const {
    const std::vector<Condition> conditions = node.op->ask<ReadIfRule>(operand);
    return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& c) {
      return holds(node.inputs[c.operand]) == c.holds;
    });
  }
};

}  // namespace metronome::testing
