// Batch normalisation (Ioffe and Szegedy 2015).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// (x - mean) rstd gamma + beta for each channel of x [N, C, ...], with the mean and the biased
/// variance of all its elements. Operands: x, gamma [C], beta [C], running mean [C], running
/// variance [C]; results: y, and the running statistics moved by `momentum` towards this batch's
/// mean and unbiased variance; saved: mean and rstd [C]. No gradient flows through the statistics'
/// results. In evaluation it reads the running statistics and leaves them as they are.
struct BatchNorm {
  static constexpr std::string_view name = "batch_norm";
  static constexpr bool channels_last = true;
  static constexpr int saved = 2;
  double eps = 1e-5;
  double momentum = 0.1;

  bool operator==(const BatchNorm&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  void require_training(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}, {1, 3}, {2, 4}}; }
  Values evaluate(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(BatchNorm);
METRONOME_CANDIDATES(BatchNorm);
METRONOME_CUDA_CANDIDATES(BatchNorm);

/// Operands: gradient, x, mean [C], rstd [C], gamma [C]; results: the gradients of x, gamma and
/// beta.
struct BatchNormGrad {
  static constexpr std::string_view name = "batch_norm_grad";
  static constexpr bool channels_last = true;
  static constexpr bool differentiable = false;

  bool operator==(const BatchNormGrad&) const = default;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}, {0, 1}}; }
  static std::vector<Case> cases();
};

METRONOME_RULES(BatchNormGrad);
METRONOME_CANDIDATES(BatchNormGrad);
METRONOME_CUDA_CANDIDATES(BatchNormGrad);

/// Batch norm's form in evaluation. Operands: x, gamma, beta, mean and variance [C].
struct BatchNormEvaluate {
  static constexpr std::string_view name = "batch_norm_evaluate";
  static constexpr bool channels_last = true;
  static constexpr bool differentiable = false;
  double eps = 1e-5;

  bool operator==(const BatchNormEvaluate&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  static std::vector<Case> cases();
};

METRONOME_RULES(BatchNormEvaluate);
METRONOME_CANDIDATES(BatchNormEvaluate);

}  // namespace metronome
