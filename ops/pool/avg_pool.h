// Average pooling over one to three spatial dimensions, and its gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/bands/bands.h"
#include "ops/pool/windows.h"
#include "ops/rules/rules.h"

namespace metronome {

/// How windows are averaged: by `divisor`; without one, by their elements, of which those in the
/// padding count too if `count_include_pad`. Elements that
/// ceil_mode adds beyond the padding never count.
struct Averaging {
  Windows windows;  ///< not dilated
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor = {};

  bool operator==(const Averaging&) const = default;
  std::string text() const;
  /// How many windows lie along each dimension; throws Requirement as `count_of` does.
  Spatial counts(const Spatial& sizes) const;
  /// The map from the operand to the averages.
  BandsOf3 bands(const Spatial& sizes) const;
};

/// The average of each window of x [N, C, spatial...], as PyTorch's avg_pool1d, 2d and 3d; padding
/// is zero. Sums in f64, in one order.
struct AvgPool {
  static constexpr std::string_view name = "avg_pool";
  static constexpr bool channels_last = true;
  Averaging averaging;

  bool operator==(const AvgPool&) const = default;
  std::string attributes() const { return averaging.text(); }
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(AvgPool);
METRONOME_CANDIDATES(AvgPool);

/// Operand: gradient [N, C, windows...]; result [N, C, size...].
struct AvgPoolGrad {
  static constexpr std::string_view name = "avg_pool_grad";
  static constexpr bool channels_last = true;
  static constexpr bool differentiable = false;
  Averaging averaging;
  Spatial size;  ///< of the pooled operand

  bool operator==(const AvgPoolGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(AvgPoolGrad);
METRONOME_CANDIDATES(AvgPoolGrad);

/// Averages of x [N, C, spatial...] of the sizes asked for: result o of `out` along a dimension of
/// `in` averages the elements from floor(o in / out) to before ceil((o + 1) in / out).
struct AdaptiveAvgPool {
  static constexpr std::string_view name = "adaptive_avg_pool";
  static constexpr bool channels_last = true;
  Spatial out;  ///< sizes of the result

  bool operator==(const AdaptiveAvgPool&) const = default;
  std::string attributes() const { return "out=" + to_string(out); }
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(AdaptiveAvgPool);
METRONOME_CANDIDATES(AdaptiveAvgPool);

/// Operand: gradient [N, C, out...]; result [N, C, size...].
struct AdaptiveAvgPoolGrad {
  static constexpr std::string_view name = "adaptive_avg_pool_grad";
  static constexpr bool channels_last = true;
  static constexpr bool differentiable = false;
  Spatial size;  ///< of the pooled operand

  bool operator==(const AdaptiveAvgPoolGrad&) const = default;
  std::string attributes() const { return "size=" + to_string(size); }
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(AdaptiveAvgPoolGrad);
METRONOME_CANDIDATES(AdaptiveAvgPoolGrad);

/// The map of an adaptive pool from `sizes` to `out`.
BandsOf3 adaptive_bands(const Spatial& sizes, const Spatial& out);

}  // namespace metronome
