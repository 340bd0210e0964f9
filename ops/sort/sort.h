// Elements of an axis in order, and where they stood.
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

/// Operand x, of numbers of any size; results: the elements along the axis in order, and the i64
/// index that each has in x. Equal ones stay in their order, which the indices show; a NaN is
/// larger than any number, as in PyTorch. With `top` only so many of the first are kept.
struct Sort {
  std::int64_t axis = 0;  ///< counted from the front
  bool descending = false;
  std::optional<std::int64_t> top = {};  ///< 0 to all
  std::string_view name = top ? "topk" : "sort";

  bool operator==(const Sort&) const = default;
  bool moves() const { return true; }  // the floating ones among the results
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Sort);
METRONOME_CANDIDATES(Sort);
METRONOME_CUDA_CANDIDATES(Sort);

}  // namespace metronome
