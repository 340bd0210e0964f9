// Matrix products.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// op(a) op(b) over the last two dimensions, [..., m, k] times [..., k, n]; leading dimensions are
/// broadcast. An operand that is marked transposed is stored [..., k, m] or [..., n, k]. With
/// `accumulate` a third operand of the result's type is added: how a sum of products needs no
/// memory of its own.
struct Matmul {
  static constexpr std::string_view name = "matmul";
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;

  bool operator==(const Matmul&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const;
  /// A sum that the product is added to: `accumulate`.
  OpPtr absorb(const Op& consumer, std::size_t operand) const;
  /// Products a^T b of few multiplications, as those of a small batch are.
  Value gather(std::span<const Addend> addends) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Matmul);
METRONOME_CANDIDATES(Matmul);
METRONOME_SAMPLE(Matmul);
METRONOME_CUDA_CANDIDATES(Matmul);

/// x W^T + bias: x [..., in], W [out, in] and, as a third operand or not at all, bias [out].
struct Linear {
  static constexpr std::string_view name = "linear";
  bool operator==(const Linear&) const = default;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  Values vjp(const Vjp& v) const;
  /// A product and the bias as a sum, which can be computed with what reads it.
  Value loosen(std::span<const Value> inputs) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Linear);
METRONOME_CANDIDATES(Linear);
METRONOME_SAMPLE(Linear);
METRONOME_CUDA_CANDIDATES(Linear);

}  // namespace metronome
