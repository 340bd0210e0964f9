// The rows that each expert takes: the discrete half of `Value::route`.
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

/// Operand: weights [rows, experts]. Each row chooses the `top` experts that weigh most, of equal
/// ones the first (a NaN weighs most of all), and each expert has `slots` places. Places are handed
/// out in one fixed order: the first choices of all rows, row by row, then the second choices, ...
/// A choice that finds no place left is dropped. Lepikhin et al., "GShard", 2020, algorithm 1.
///
/// Results, all i64, are indices for `embedding_lookup`, never out of range where there is a row:
///   choice [top, rows]        row * experts + expert: where the chosen weight stands
///   slot   [top, rows]        expert * slots + place; experts * slots where it was dropped
///   row    [experts * slots]  the row that has the slot; row 0 where none has
///   load   [experts]          choices that fell on the expert, dropped ones included
struct Route {
  static constexpr std::string_view name = "route";
  static constexpr bool differentiable = false;
  std::int64_t top = 1;    ///< 1 to experts
  std::int64_t slots = 0;  ///< of each expert

  bool operator==(const Route&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Route);
METRONOME_CANDIDATES(Route);

}  // namespace metronome
