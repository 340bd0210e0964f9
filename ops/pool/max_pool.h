// Max pooling over one to three spatial dimensions, and its gradient.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/pool/windows.h"
#include "ops/rules/rules.h"

namespace metronome {

/// The largest element of each window of x [N, C, spatial...], as PyTorch's max_pool1d, 2d and 3d:
/// padding is smaller than any number, and a NaN is the largest. Saved, as i32: which element of
/// its kernel won (row-major; the first of equal ones, the last NaN), -1 if a window holds padding
/// alone.
struct MaxPool {
  static constexpr std::string_view name = "max_pool";
  static constexpr bool channels_last = true;
  static constexpr int saved = 1;
  Windows windows;

  bool operator==(const MaxPool&) const = default;
  std::string attributes() const { return windows.text(); }
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(MaxPool);
METRONOME_CANDIDATES(MaxPool);

/// Operands: gradient [N, C, windows...], winners of the same shape; result [N, C, size...]: each
/// element's sum of the gradients of the windows that it won, added in their order. A
/// winner in the padding wins nothing.
struct MaxPoolGrad {
  static constexpr std::string_view name = "max_pool_grad";
  static constexpr bool channels_last = true;
  static constexpr bool differentiable = false;
  Windows windows;
  Spatial size;  ///< of the pooled operand

  bool operator==(const MaxPoolGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(MaxPoolGrad);
METRONOME_CANDIDATES(MaxPoolGrad);

}  // namespace metronome
