// How a pass walks: it copies a graph node by node and may put other values in a node's place.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/ir/graph.h"

namespace metronome::passes {

class Copier {
 public:
  explicit Copier(const ir::Graph& from);

  const ir::Graph& from;
  ir::Graph to;
  Emitter emitter{to};  ///< writes what takes a node's place; closed by `finish`

  /// Returns the value of `to` that a value of `from` has become. Throws InternalError if it was
  /// dropped.
  ValueId at(ValueId old) const;
  bool has(ValueId old) const;
  Values inputs_of(const Node& node);
  /// Returns the value that a node's guard has become; absent if it has none.
  ValueId guard_of(const Node& node) const;

  /// Returns the waits of these nodes of `from` as nodes of `to`, each once: for a node that is
  /// waited for, those that took its place, or, if none did, those that it waited for.
  std::vector<std::int32_t> waits_of(const Node& node) const;
  std::vector<std::int32_t> waits_of(std::span<const std::int32_t> nodes) const;

  /// Appends a node as it is, on what its inputs have become, which are of the same types.
  void copy(std::int32_t node);
  /// Appends `changed`, whose inputs, guard and waits are of `from`, in the node's place.
  void append(std::int32_t node, Node changed);
  /// These values stand for the node's outputs (saved ones may be missing).
  void replace(std::int32_t node, const Values& outputs);
  void replace(ValueId old, ValueId now);
  /// `now`, a node of `to`, does the node's work, whichever of its values are still there.
  void join(std::int32_t node, std::int32_t now) { joined_[node] = now; }

  /// Losses, readables, assignments and gradients carried over to what their values have become;
  /// readables whose values were dropped become absent.
  ir::Graph finish();

 private:
  void add_waits(const Node& node, std::vector<std::int32_t>& waits) const;
  std::size_t place_of(ValueId old) const {
    return first_[old.node] + static_cast<std::size_t>(old.output);
  }
  /// Returns a changed node with the values that its inputs and its guard have become.
  Node rewire(Node node) const;
  /// The outputs of a node of `from` have become those of `made`.
  void place(std::int32_t node, ValueId made);

  std::vector<std::size_t> first_;  // [node] where its outputs stand in `now_`
  std::vector<ValueId> now_;
  std::unordered_map<std::int32_t, std::int32_t> joined_;  // node of `from` -> node of `to`
};

}  // namespace metronome::passes
