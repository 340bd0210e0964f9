// Images of another size: the nearest element, or a blend of the four around.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/bands/bands.h"
#include "ops/pool/windows.h"
#include "ops/rules/rules.h"
#include "ops/upsample/interpolation.h"

namespace metronome {

/// How a result's place becomes one of the operand's, as in PyTorch's interpolate. A place o of
/// `out` lies at o ratio (nearest: rounded down; f32, as PyTorch computes it), bilinear at
/// (o + 1/2) ratio - 1/2; with align_corners at o (in - 1) / (out - 1). The ratio is 1 / scale, or
/// in / out without scales.
struct Resizing {
  using Mode = Interpolation;

  Mode mode = Mode::nearest;
  bool align_corners = false;  ///< bilinear only
  Spatial out = {};            ///< sizes of the result
  std::vector<double> scales = {};

  bool operator==(const Resizing&) const = default;
  std::string text() const;
  /// Throws Requirement where an image of these sizes cannot be resized so.
  void check(const Type& x) const;
  /// The map from the operand to the result; bilinear places in the precision of `element`.
  BandsOf3 bands(const Spatial& sizes, Element element) const;
};

/// x [N, C, spatial...] -> [N, C, out...]. Nearest over one to three spatial dimensions, bilinear
/// over two.
struct Upsample {
  static constexpr std::string_view name = "upsample";
  static constexpr bool channels_last = true;
  Resizing resizing;

  bool operator==(const Upsample&) const = default;
  std::string attributes() const { return resizing.text(); }
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Upsample);
METRONOME_CANDIDATES(Upsample);

/// Operand: gradient [N, C, out...]; result [N, C, size...], sums in f64, in one order.
struct UpsampleGrad {
  static constexpr std::string_view name = "upsample_grad";
  static constexpr bool channels_last = true;
  static constexpr bool differentiable = false;
  Resizing resizing;
  Spatial size;  ///< of the operand

  bool operator==(const UpsampleGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(UpsampleGrad);
METRONOME_CANDIDATES(UpsampleGrad);

}  // namespace metronome
