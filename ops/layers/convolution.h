// Convolutions with PyTorch's names, defaults and initialisation.
//
//   x [8, 3, 32, 32]
//   x.through(conv2d(16, 3, {.padding = 1}))            [8, 16, 32, 32]
//    .through(conv2d(32, {4, 4}, {.stride = 2}))        [8, 32, 15, 15]
//    .through(conv_transpose2d(3, 4, {.stride = 2}))    [8, 3, 32, 32]
//
// Kernels, strides, paddings and dilations are one number for all spatial dimensions, or one for
// each. Layers make their parameters `weight` and `bias`. Both begin uniform in +-1 / sqrt(fan),
// where fan is the product of all dimensions of the weight but the first, unless an init is given.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/layers/spatial_numbers.h"

namespace metronome {

/// The padding with which a convolution of stride 1 keeps the sizes of its input; where it is odd,
/// the one element more lies at the high end.
struct Same {};
inline constexpr Same same;

/// Zeros at both ends of each spatial dimension: numbers of 0 or more, or `same`.
struct ConvPadding {
  template <std::integral I>
  ConvPadding(I number) : numbers(number) {}  // NOLINT: {.padding = 1}
  ConvPadding(std::initializer_list<std::int64_t> list) : numbers(list) {}
  ConvPadding(SpatialNumbers list) : numbers(std::move(list)) {}  // NOLINT
  ConvPadding(Same) : keeps_sizes(true) {}                        // NOLINT

  SpatialNumbers numbers = 0;
  bool keeps_sizes = false;
};

struct ConvOptions {
  SpatialNumbers stride = 1;
  ConvPadding padding = 0;
  SpatialNumbers dilation = 1;  ///< from one element under the kernel to the next
  std::int64_t groups = 1;      ///< each group of outputs reads a group of channels alone
  bool bias = true;
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
};

/// x [N, C, spatial...] to [N, out, spatial...]; weight [out, C / groups, kernel...], bias [out].
Layer conv1d(std::int64_t out, SpatialNumbers kernel, ConvOptions options = {});
Layer conv2d(std::int64_t out, SpatialNumbers kernel, ConvOptions options = {});
Layer conv3d(std::int64_t out, SpatialNumbers kernel, ConvOptions options = {});

struct ConvTransposeOptions {
  SpatialNumbers stride = 1;
  SpatialNumbers padding = 0;         ///< elements that are left out at both ends
  SpatialNumbers output_padding = 0;  ///< more elements at the high end, fewer than the stride or
                                      ///< than the dilation
  SpatialNumbers dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
};

/// The transposes: x [N, C, spatial...] to [N, out, spatial...] with spatial sizes
/// (size - 1) stride - 2 padding + (kernel - 1) dilation + output_padding + 1; weight
/// [C, out / groups, kernel...], bias [out].
Layer conv_transpose1d(std::int64_t out, SpatialNumbers kernel, ConvTransposeOptions options = {});
Layer conv_transpose2d(std::int64_t out, SpatialNumbers kernel, ConvTransposeOptions options = {});
Layer conv_transpose3d(std::int64_t out, SpatialNumbers kernel, ConvTransposeOptions options = {});

// ---- of values: the weight and, if there is one, the bias are operands
// ---------------------------

struct ConvArguments {
  SpatialNumbers stride = 1;
  ConvPadding padding = 0;
  SpatialNumbers dilation = 1;
  std::int64_t groups = 1;
};

/// The convolutions with a weight, and perhaps a bias, that are values: shapes as those of the
/// layers'.
Value conv1d(Value x, Value weight, ConvArguments arguments = {}, Line line = Line::here());
Value conv2d(Value x, Value weight, ConvArguments arguments = {}, Line line = Line::here());
Value conv3d(Value x, Value weight, ConvArguments arguments = {}, Line line = Line::here());
Value conv1d(Value x, Value weight, Value bias, ConvArguments arguments = {},
             Line line = Line::here());
Value conv2d(Value x, Value weight, Value bias, ConvArguments arguments = {},
             Line line = Line::here());
Value conv3d(Value x, Value weight, Value bias, ConvArguments arguments = {},
             Line line = Line::here());

struct ConvTransposeArguments {
  SpatialNumbers stride = 1;
  SpatialNumbers padding = 0;
  SpatialNumbers output_padding = 0;
  SpatialNumbers dilation = 1;
  std::int64_t groups = 1;
};

/// Their transposes.
Value conv_transpose1d(Value x, Value weight, ConvTransposeArguments arguments = {},
                       Line line = Line::here());
Value conv_transpose2d(Value x, Value weight, ConvTransposeArguments arguments = {},
                       Line line = Line::here());
Value conv_transpose3d(Value x, Value weight, ConvTransposeArguments arguments = {},
                       Line line = Line::here());
Value conv_transpose1d(Value x, Value weight, Value bias, ConvTransposeArguments arguments = {},
                       Line line = Line::here());
Value conv_transpose2d(Value x, Value weight, Value bias, ConvTransposeArguments arguments = {},
                       Line line = Line::here());
Value conv_transpose3d(Value x, Value weight, Value bias, ConvTransposeArguments arguments = {},
                       Line line = Line::here());

}  // namespace metronome
