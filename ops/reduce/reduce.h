// Reductions over axes, and the index of the largest element.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/expr/reduction.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Reduces over some axes. Sums of f32 are added in f64 block by block; the same shape gives the
/// same bits whatever the number of threads.
struct Reduce {
  using Kind = ReduceKind;

  Kind kind = Kind::sum;
  std::vector<std::int64_t> axes;  ///< counted from the front, each once, in order
  bool keep = false;               ///< reduced dimensions stay, as 1
  std::string_view name = name_of(kind);

  bool operator==(const Reduce&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  /// Over dimensions of one element it is a reshape.
  Value fold(std::span<const Value> in) const;
  /// Not over a dimension of which the last block is filled up.
  std::optional<LaidOutOp> lay_out(std::span<const Type> in, const Layout& layout) const;
  std::optional<Fusion> fusion(std::span<const Type> in) const;
  /// Sums of the rows of small matrices.
  Value gather(std::span<const Addend> addends) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Reduce);
METRONOME_CANDIDATES(Reduce);
METRONOME_CUDA_CANDIDATES(Reduce);

/// Index of the first of the largest elements along an axis (of the first NaN, if there is one).
struct ArgMax {
  static constexpr std::string_view name = "argmax";
  static constexpr bool differentiable = false;
  std::int64_t axis = -1;

  bool operator==(const ArgMax&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(ArgMax);
METRONOME_CANDIDATES(ArgMax);

/// Axes counted from the front, sorted; those out of range stay as they are, for `infer` to name.
std::vector<std::int64_t> from_front(std::vector<std::int64_t> axes, std::int64_t rank);

}  // namespace metronome
