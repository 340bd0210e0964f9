// Root mean square normalisation (Zhang and Sennrich 2019).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// x rstd gamma over the last dimension, with rstd = 1 / sqrt(average(x^2) + eps). Operands:
/// x [..., d], gamma [d]; saved: rstd [...].
struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";
  static constexpr int saved = 1;
  double eps = 1e-6;

  bool operator==(const RmsNorm&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  Values lower(std::span<const Value> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0}, {0}};
  }
  static std::vector<Case> cases();
};

METRONOME_RULES(RmsNorm);
METRONOME_CANDIDATES(RmsNorm);

/// Operands: gradient [..., d], x [..., d], rstd [...], gamma [d]; results: the gradients of x and
/// gamma.
struct RmsNormGrad {
  static constexpr std::string_view name = "rms_norm_grad";
  static constexpr bool differentiable = false;

  bool operator==(const RmsNormGrad&) const = default;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}, {0, 1}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0, 1}, {0}};
  }
  static std::vector<Case> cases();
};

METRONOME_RULES(RmsNormGrad);
METRONOME_CANDIDATES(RmsNormGrad);
METRONOME_CUDA_CANDIDATES(RmsNormGrad);

}  // namespace metronome
