// Elements of one axis by index, and sums into it by index: each is the other's gradient.
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

/// Operands: x, index (i32 or i64) of x's rank, which along no other axis is larger than x; result
/// of the index's shape: in three dimensions and along axis 1, x[i, index[i, j, k], k]. As in
/// `Embedding`, an index out of range reads zero, receives no gradient and is reported.
struct Gather {
  static constexpr std::string_view name = "gather";
  std::int64_t axis = 0;  ///< counted from the front

  bool operator==(const Gather&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  std::optional<Indexing> indexing(std::span<const Type> in) const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Gather);

/// Operands: x, index as `Gather` takes it, source of x's element type and the index's shape;
/// result of x's type: x, to which each element of the source is added where `Gather` would read.
/// Each sum begins with x's element and is added in the order of the index along the axis. An index
/// out of range adds nothing and is reported.
struct ScatterAdd {
  static constexpr std::string_view name = "scatter_add";
  std::int64_t axis = 0;  ///< counted from the front

  bool operator==(const ScatterAdd&) const = default;
  std::string attributes() const;
  std::optional<Indexing> indexing(std::span<const Type> in) const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  static std::vector<Case> cases();
};

METRONOME_RULES(ScatterAdd);

}  // namespace metronome
