// Row numbers in an order that is random and new in each epoch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Operands: the seed, i64[]; positions, i64[...], 0 or more. Result, of the positions' shape: the
/// row at place p mod `rows` of the order of [0, rows) that (seed, key, p div rows) choose
/// (ops/kernel/shuffle.h). So positions from 0 on visit all rows once, then all of them in another
/// order. A negative position gives some row.
struct Shuffle {
  static constexpr std::string_view name = "shuffle";
  static constexpr bool differentiable = false;
  std::int64_t rows = 1;
  std::uint64_t key = 0;  ///< set when the node is made

  bool operator==(const Shuffle&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Shuffle);

}  // namespace metronome
