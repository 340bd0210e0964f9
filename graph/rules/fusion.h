// How the pass `fuse` computes an op together with others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "graph/rules/rule.h"

namespace metronome {

/// How an op may be computed together with others, element by element.
struct Fusion {
  enum class Kind : std::uint8_t {
    /// Every output element depends on the elements of the operands at its place, which are
    /// broadcast to the output's shape as in NumPy. Such an op has one output.
    map,
    /// It reads some operands once through, element by element, and reduces over some of their
    /// dimensions. An op that makes such an operand can be computed as it is read; one that maps a
    /// result of the same shape, as it is written.
    reduction,
    /// The one result is a range of the one operand along an axis, from `begin` on: it is read
    /// where it lies, so the operand lies in memory.
    slice,
    /// The operands, all of one shape, lie side by side along an axis of the one result, which is
    /// written to memory.
    concat,
  };
  Kind kind = Kind::map;
  std::vector<int> streamed_inputs = {};   ///< reduction: operands of the shape it walks over
  std::vector<int> streamed_outputs = {};  ///< reduction: results of that shape
  std::int64_t axis = 0;                   ///< slice, concat
  std::int64_t begin = 0;                  ///< slice
};

/// Settings of the pass `fuse`.
struct FuseSettings {
  /// True for an op that the target can compute in a `Group` with others; absent: `fuse` does
  /// nothing.
  std::function<bool(const Op&)> takes;
  /// True where a launch that is saved is worth work and bytes that are kept longer: `fuse` then
  /// also makes groups of few elements, joins nodes that only read the same elements, or have one
  /// element each, and makes a slice for each of several readers.
  bool launches_cost = true;
  /// True where `fuse` does nothing all the same: the nodes that a group would join are looked at
  /// one by one.
  bool apart = false;
};

}  // namespace metronome

/// Absent where the op is computed on its own.
METRONOME_RULE(FusionRule, fusion, std::optional<Fusion>, (std::span<const Type>))
