// Pooling with PyTorch's names, defaults and conditions: as layers, and of values.
//
//   x [8, 16, 32, 32]
//   x.through(max_pool2d(2))                                   [8, 16, 16, 16]
//    .through(avg_pool2d(3, {.stride = 2, .padding = 1}))      [8, 16, 8, 8]
//    .through(adaptive_avg_pool2d(1)).through(flatten())       [8, 16]
//
// x is [N, C, spatial...] of f32 or f64 with as many spatial dimensions as the name says.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/layers/spatial_numbers.h"

namespace metronome {

struct MaxPoolOptions {
  SpatialNumbers stride = {};   ///< empty: the kernel
  SpatialNumbers padding = 0;   ///< at both ends, smaller than any number; half the kernel at most
  SpatialNumbers dilation = 1;  ///< from one element of a window to the next
  bool ceil_mode = false;       ///< a last window may reach beyond the padding, if it begins before
};

/// The largest element of each window (ops/pool/max_pool.h).
Layer max_pool1d(SpatialNumbers kernel, MaxPoolOptions options = {});
Layer max_pool2d(SpatialNumbers kernel, MaxPoolOptions options = {});
Layer max_pool3d(SpatialNumbers kernel, MaxPoolOptions options = {});
Value max_pool1d(Value x, SpatialNumbers kernel, MaxPoolOptions options = {},
                 Line line = Line::here());
Value max_pool2d(Value x, SpatialNumbers kernel, MaxPoolOptions options = {},
                 Line line = Line::here());
Value max_pool3d(Value x, SpatialNumbers kernel, MaxPoolOptions options = {},
                 Line line = Line::here());

struct AvgPoolOptions {
  SpatialNumbers stride = {};  ///< empty: the kernel
  SpatialNumbers padding = 0;  ///< zeros at both ends; half the kernel at most
  bool ceil_mode = false;
  bool count_include_pad = true;                      ///< whether padding counts as elements
  std::optional<std::int64_t> divisor_override = {};  ///< what sums are divided by instead
};

/// The average of each window (ops/pool/avg_pool.h).
Layer avg_pool1d(SpatialNumbers kernel, AvgPoolOptions options = {});
Layer avg_pool2d(SpatialNumbers kernel, AvgPoolOptions options = {});
Layer avg_pool3d(SpatialNumbers kernel, AvgPoolOptions options = {});
Value avg_pool1d(Value x, SpatialNumbers kernel, AvgPoolOptions options = {},
                 Line line = Line::here());
Value avg_pool2d(Value x, SpatialNumbers kernel, AvgPoolOptions options = {},
                 Line line = Line::here());
Value avg_pool3d(Value x, SpatialNumbers kernel, AvgPoolOptions options = {},
                 Line line = Line::here());

/// Averages of the sizes asked for, of windows that differ by one element at most; the average of
/// all, where each size is 1, is a `mean`.
Layer adaptive_avg_pool1d(SpatialNumbers out);
Layer adaptive_avg_pool2d(SpatialNumbers out);
Layer adaptive_avg_pool3d(SpatialNumbers out);
Value adaptive_avg_pool1d(Value x, SpatialNumbers out, Line line = Line::here());
Value adaptive_avg_pool2d(Value x, SpatialNumbers out, Line line = Line::here());
Value adaptive_avg_pool3d(Value x, SpatialNumbers out, Line line = Line::here());

}  // namespace metronome
