// Dropout.
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

/// Zeroes each element with probability p and scales the others by 1 / (1 - p) (Srivastava et al.
/// 2014). Operands: seed i64[], replay i64[], x. Element i is kept where
/// uniform(philox(seed, replay, key, n / 4)[n % 4]) >= p, with n = first + i. Its gradient is the
/// same op, of the same key, on the gradient: no mask is kept. In evaluation it is its input. Ranks
/// that share a batch number their elements one after the other, as one process would all of them.
struct Dropout {
  static constexpr std::string_view name = "dropout";
  double p = 0.5;
  std::uint64_t key = 0;  ///< set when the node is made
  std::uint64_t first =
      0;  ///< number of the first element, those of ranks before this one before it

  bool operator==(const Dropout&) const = default;
  std::string attributes() const;  ///< without `first`: the same text on all ranks
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 2}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
  Values evaluate(std::span<const Value> in) const;
  Value fold(std::span<const Value> in) const;
  OpPtr on_rank(std::span<const Type> in, int rank) const;
  static std::vector<Case> cases();

  /// The factor of a kept element; 0 if p is 1.
  double scale() const { return p < 1 ? 1 / (1 - p) : 0; }
};

METRONOME_RULES(Dropout);
METRONOME_MAP(Dropout);

}  // namespace metronome
