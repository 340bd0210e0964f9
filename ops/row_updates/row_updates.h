// The parts of an update of single rows of a table: the sum of each row's gradients, and the way
// back into the table. Both read an index whose equal elements are neighbours, as a sort leaves
// them: a run of them is one row.
//
//   index  position                    sums   table'
//     2       1     x[1] + x[3]         y0      t0
//     2       3          -              0       t1
//     5       0     x[0]                y1     row of the first run
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Operands: x [..., width], read as [n, width]; index [n] (i32 or i64); position [n] (i64), places
/// of rows of x. Result [n, width]: at the first place of each run of equal neighbours in the index
/// the sum of the rows x[position[j]] of the run's places j, added to 0 in their order; elsewhere
/// zeros. So it has the bits of `EmbeddingGrad`'s rows. A position outside [0, n) adds nothing.
struct RunSum {
  static constexpr std::string_view name = "run_sum";
  static constexpr bool differentiable = false;
  bool operator==(const RunSum&) const = default;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(RunSum);

/// Operands: table [rows, ...]; index [n] (i32 or i64); source [n, ...], of the table's element.
/// Result: the table, but row index[i] is source[i] for the first place i of each run of equal
/// neighbours in the index; an index outside [0, rows) has no row. No two runs have one index.
struct IndexCopy {
  static constexpr std::string_view name = "index_copy";
  /// The function whose rows these are, by which reports name an index that has none; empty: it is
  /// not reported.
  std::string_view verb = {};
  bool operator==(const IndexCopy&) const = default;
  std::optional<Indexing> indexing(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  bool moves() const { return true; }
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(IndexCopy);

}  // namespace metronome
