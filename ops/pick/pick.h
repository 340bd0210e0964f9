// One element of the last dimension by index, and its gradient.
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

/// Operands: x [..., size], index (i32 or i64) [...]; result [...]: x[..., index[...]]. As in
/// `Embedding`, an index out of range reads zero, receives no gradient and is reported. One that
/// equals `ignored`, a target that stands for "none", reads zero too, be it in range or not, and is
/// no mistake.
struct Pick {
  static constexpr std::string_view name = "pick";
  std::optional<std::int64_t> ignored = {};

  bool operator==(const Pick&) const = default;
  std::string attributes() const;
  bool moves() const { return true; }
  std::optional<Indexing> indexing(std::span<const Type> in) const;
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
  std::optional<std::int64_t> ignored = {};

  bool operator==(const PickGrad&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  OpPtr absorb(const Op& consumer, std::size_t operand) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(PickGrad);

}  // namespace metronome
