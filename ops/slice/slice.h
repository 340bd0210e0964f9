// A range of an axis, and its gradient.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Elements [begin, end) along an axis. A view where they lie together (all dimensions before the
/// axis are 1), else a copy.
struct Slice {
  static constexpr std::string_view name = "slice";
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const Slice&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::optional<Alias> alias(std::span<const Type> in) const;
  /// Absent if the slice is a view, no copy.
  std::optional<Fusion> fusion(std::span<const Type> in) const;
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Slice);

/// The operand at [begin, ...) along an axis of `size`, zeros around it; with `accumulate` a second
/// operand of the result's type is added, in place where it may be: a sum of many ranges' gradients
/// takes as long as the ranges, and not as long as the whole for each.
struct SliceGrad {
  static constexpr std::string_view name = "slice_grad";
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  bool accumulate = false;

  bool operator==(const SliceGrad&) const = default;
  bool moves() const { return !accumulate; }
  bool halves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const;
  /// A sum that the operand is added to: `accumulate`.
  OpPtr absorb(const Op& consumer, std::size_t operand) const;
  /// Ranges that fill an axis side by side (the gradient of `chunk`): they are put together.
  Value gather(std::span<const Addend> addends) const;
  bool gathers_with(const Op& other) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(SliceGrad);

}  // namespace metronome
