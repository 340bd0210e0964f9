// One element of the last dimension by index, and its gradient.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "graph/type.h"
#include "ops/rules.h"

namespace metronome {

/// Operands: x [..., size], index (i32 or i64) [...]; result [...]: x[..., index[...]]. As in
/// `Embedding`, an index out of range reads zero and receives no gradient.
struct Pick {
  static constexpr std::string_view name = "pick";
  bool operator==(const Pick&) const = default;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Pick);

/// Operands: gradient [...], index [...]; result [..., size]: the gradient at the index, zero
/// elsewhere.
struct PickGrad {
  static constexpr std::string_view name = "pick_grad";
  static constexpr bool differentiable = false;
  std::int64_t size = 0;

  bool operator==(const PickGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(PickGrad);

}  // namespace metronome
