// Who reads what: the planner's own reading of a graph, for order and memory. The checker of plans
// does not use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::plan {

inline std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A graph in plain numbers. Values are numbered in node order. A root is a value with bytes of its
/// own; every value lies in one root, most of them in themselves: a view in what it views, an
/// operand inside the result that it is a part of (`InsideRule`). Only nodes that run (have a
/// kernel: neither Input, Read nor a view) read and write.
struct Uses {
  /// The root that a value lies in, and where in it the value begins.
  struct View {
    std::int32_t root = -1;
    std::size_t offset = 0;  ///< bytes

    bool operator==(const View&) const = default;
  };
  /// The place of a root's bytes, as far as the graph alone decides it.
  enum class Home : std::uint8_t { planned, input, storage, readable, nowhere };

  std::vector<std::int32_t> first;               ///< [node + 1] number of its first output
  std::vector<ValueId> ids;                      ///< [value]
  std::vector<View> views;                       ///< [value]
  std::vector<std::int32_t> makers;              ///< [value] the node that makes its numbers
  std::vector<Home> homes;                       ///< [value], of roots
  std::vector<std::int32_t> home_index;          ///< [value] node, storage or first Readable
  std::vector<std::size_t> bytes;                ///< [value] as its type says
  std::vector<bool> kept;                        ///< [value] assigned: a root that lives to the end
  std::vector<bool> runs;                        ///< [node]
  std::vector<std::vector<InPlace>> rights;      ///< [node] outputs that may overwrite inputs
  std::vector<std::vector<std::int32_t>> reads;  ///< [node] distinct roots, its guard's included
  std::vector<std::vector<std::int32_t>> readers;  ///< [value] distinct nodes that read a root

  std::int32_t number(ValueId id) const { return first[id.node] + id.output; }
  const View& view(ValueId id) const { return views[number(id)]; }
  std::int32_t root(ValueId id) const { return view(id).root; }
  std::int32_t nodes() const { return static_cast<std::int32_t>(runs.size()); }
  std::int32_t values() const { return static_cast<std::int32_t>(ids.size()); }
};

/// An operand lies inside a result if the op of that result lets it, the two run under one
/// guard, the operand is neither read by users nor assigned nor inside another, and its offset is a
/// multiple of `alignment`. Throws InternalError if a readable or assigned value is an input or
/// a storage's old value, or a view of one: those need a Copy before they can be planned.
Uses uses_of(const ir::Graph& graph, std::size_t alignment);
/// The uses if each operand has bytes of its own; only those of `pack` lie inside its result, as it
/// is there for that.
Uses uses_apart(const ir::Graph& graph, std::size_t alignment);
/// True if an operand lies inside a result.
bool has_insides(const Uses& uses);

/// True if output `right.output` of `node` may be written over the root of its input
/// `right.input` as far as the node itself is concerned: the same bytes, all of the root, and every
/// other operand that views the root has the same right at the same place. Whether the root is dead
/// after the node is for the caller to know.
bool may_overwrite(const ir::Graph& graph, const Uses& uses, std::int32_t node, InPlace right);

}  // namespace metronome::plan
