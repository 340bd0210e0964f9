// Collectives: what ranks with a device each do together, by a library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cuda/library.h"
#include "ops/rules/collective_ranks.h"
#include "ops/rules/reduce_op.h"

namespace metronome {

/// A collective of n ranks, each of which gives `count` elements:
///   all_reduce      each gets the sum (mean, ...) of all ranks' elements, place by place: count
///   reduce          the same, for `root` alone; what lies at `to` of the others is undefined then
///   broadcast       each gets those of `root`: count
///   all_gather      each gets rank 0's, then rank 1's, ...: n count
///   reduce_scatter  each gets its n-th part of what all_reduce makes: count / n
///   all_to_all      the r-th part goes to rank r, and stands there at this rank's place: count
struct CollectiveProblem {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    all_to_all
  };
  Kind kind = Kind::all_reduce;
  ReduceOp op = ReduceOp::sum;  ///< of those that reduce
  Element element = f32;        ///< f32, f64 or i64 where they reduce, i64 without a mean; else any
  std::int64_t count = 0;       ///< elements that each rank gives
  int root = 0;                 ///< of `reduce` and `broadcast`

  bool operator==(const CollectiveProblem&) const = default;
};

/// Whether numbers are made, not only moved.
bool reduces(CollectiveProblem::Kind kind);

/// "all_reduce mean of f32 [76704]", "broadcast of bool [8] from rank 1".
std::string to_string(const CollectiveProblem& problem);

/// All ranks make the same calls, in the same order.
struct CollectiveCommand {
  static constexpr std::string_view name = "collective";
  static constexpr Maker maker = Maker::nccl;
  /// NCCL does not serve conditional nodes (NVIDIA/nccl#1986).
  static constexpr bool conditional = false;

  CollectiveProblem problem = {};
  std::shared_ptr<CollectiveRanks> ranks = {};
  const void* from = nullptr;
  void* to = nullptr;  ///< may be `from` where as many elements come as go, but for all_to_all
  std::optional<Algorithm> algorithm = {};  ///< NCCL chooses by itself

  std::size_t from_bytes() const;
  std::size_t to_bytes() const;
  std::string text() const { return to_string(problem); }
  std::vector<LibraryOperand> operands() const;
  /// Refuses one without elements, of no ranks, of parts that are not whole, of a root that is no
  /// rank, and reductions that ranks do not know.
  void check() const;
};

}  // namespace metronome
