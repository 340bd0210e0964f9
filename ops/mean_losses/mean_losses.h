// Losses as ops: a prediction's distance from its target, the mean over all elements (over all rows
// for classes). Each is a composite: `lower` writes it out in other ops, and libtorch's own loss is
// its eager form.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/value.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Mean of (prediction - target)^2. Operands of one floating type.
struct MseLoss {
  static constexpr std::string_view name = "mse_loss";
  bool operator==(const MseLoss&) const = default;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(MseLoss);

/// Mean of |prediction - target|. Operands of one floating type.
struct L1Loss {
  static constexpr std::string_view name = "l1_loss";
  bool operator==(const L1Loss&) const = default;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(L1Loss);

/// Mean of d^2 / (2 beta) where d = |prediction - target| is below beta, of d - beta / 2 elsewhere
/// (Girshick, "Fast R-CNN", 2015). Operands of one floating type; beta >= 0.
struct SmoothL1Loss {
  static constexpr std::string_view name = "smooth_l1_loss";
  double beta = 1;
  bool operator==(const SmoothL1Loss&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(SmoothL1Loss);

/// Mean of -log softmax(logits)[target] over the rows whose target is not `ignore_index`, as
/// torch.nn.functional.cross_entropy; NaN if all are ignored, as there. Logits [..., classes]
/// floating, targets [...] i64 from 0 to classes - 1, or `ignore_index`. Any other target adds zero
/// to the sum and is reported (`Executable::fault`); `eager` throws RunError for it.
struct CrossEntropyLoss {
  static constexpr std::string_view name = "cross_entropy_loss";
  std::int64_t ignore_index = -100;

  bool operator==(const CrossEntropyLoss&) const = default;
  std::string attributes() const;
  std::optional<Indexing> indexing(std::span<const Type> in) const;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(CrossEntropyLoss);

/// Mean of -(target log s + (1 - target) log(1 - s)), s = sigmoid(logits), which neither overflows
/// nor loses digits in either tail, as its slope does not. Operands of one floating type.
struct BceWithLogitsLoss {
  static constexpr std::string_view name = "bce_with_logits_loss";
  bool operator==(const BceWithLogitsLoss&) const = default;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};
METRONOME_COMPOSITE(BceWithLogitsLoss);

}  // namespace metronome
