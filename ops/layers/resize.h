// Values of other sizes: padded, cut, resized, rearranged. PyTorch's names and defaults; as layers,
// and of values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/layers/spatial_numbers.h"
#include "ops/upsample/interpolation.h"

namespace metronome {

/// Dimensions `start` to `end`, which belongs to them, as one. Negative ones count from the end.
Layer flatten(std::int64_t start = 1, std::int64_t end = -1);
Value flatten(Value x, std::int64_t start = 1, std::int64_t end = -1, Line line = Line::here());

/// Elements equal to `value` in front of and behind the last dimensions: two widths for each, the
/// last dimension's first, as in torch.nn.functional.pad. Negative widths cut off.
///
///   x [8, 3, 32, 32]    pad(x, {1, 2})          [8, 3, 32, 35]
///                       pad(x, {1, 1, -2, 0})   [8, 3, 30, 34]
Layer pad(std::vector<std::int64_t> widths, double value = 0);
Value pad(Value x, std::vector<std::int64_t> widths, double value = 0, Line line = Line::here());

/// One factor for all spatial dimensions, or one for each.
struct SpatialFactors {
  template <class N>
    requires std::is_arithmetic_v<N>
  SpatialFactors(N number)  // NOLINT: {.scale_factor = 2}
      : list{static_cast<double>(number)} {}
  SpatialFactors(std::initializer_list<double> numbers) : list(numbers) {}

  std::vector<double> list;
};

/// Either sizes or factors: sizes of the result are then the operand's times the factor, rounded
/// down.
struct InterpolateOptions {
  SpatialNumbers size = {};
  SpatialFactors scale_factor = {};
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;
};

/// x [N, C, spatial...] with spatial dimensions of other sizes (ops/upsample/upsample.h).
Value interpolate(Value x, InterpolateOptions options, Line line = Line::here());
Layer upsample(InterpolateOptions options);

/// x [..., C r^2, H, W] to [..., C, H r, W r]: channel c r^2 + i r + j gives the elements at row i,
/// column j of each square of r times r. `pixel_unshuffle` is the other way round.
Layer pixel_shuffle(std::int64_t upscale_factor);
Layer pixel_unshuffle(std::int64_t downscale_factor);
Value pixel_shuffle(Value x, std::int64_t upscale_factor, Line line = Line::here());
Value pixel_unshuffle(Value x, std::int64_t downscale_factor, Line line = Line::here());

}  // namespace metronome
