// Layer normalisation (Ba, Kiros, Hinton 2016).
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

/// (x - mean) rstd gamma + beta over the last dimension, with rstd = 1 / sqrt(variance + eps) of
/// the biased variance. Operands: x [..., d], gamma [d], beta [d]; saved: mean and rstd [...].
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";
  static constexpr int saved = 2;
  double eps = 1e-5;

  bool operator==(const LayerNorm&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0}, {0}};
  }
  static std::vector<Case> cases();
};

METRONOME_RULES(LayerNorm);
METRONOME_CANDIDATES(LayerNorm);

/// Operands: gradient [..., d], x [..., d], mean [...], rstd [...], gamma [d]; results: the
/// gradients of x, gamma and beta.
struct LayerNormGrad {
  static constexpr std::string_view name = "layer_norm_grad";
  static constexpr bool differentiable = false;

  bool operator==(const LayerNormGrad&) const = default;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}, {0, 1}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0, 1}, {0}};
  }
  static std::vector<Case> cases();
};

METRONOME_RULES(LayerNormGrad);
METRONOME_CANDIDATES(LayerNormGrad);
METRONOME_CUDA_CANDIDATES(LayerNormGrad);

}  // namespace metronome
