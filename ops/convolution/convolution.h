// Convolutions over one, two or three spatial dimensions, and what their gradients are made of.
//
// One relation ties the sizes of a spatial dimension together; each op leaves out one of them:
//
//   low + input + high = (output - 1) stride + (kernel - 1) dilation + 1
//
//   convolution              output of input and kernel; what is over at the end is left out
//   transposed_convolution   input of output and kernel: a convolution's gradient of its input
//   convolution_weight_grad  kernel of input and output: its gradient of its weight
//
// Each is bilinear, so the gradients of all three are these three again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// How a kernel moves over its input: a number for each spatial dimension.
struct ConvolutionWindow {
  Shape stride;     ///< 1 or more
  Shape low, high;  ///< zeros before the first and behind the last element; where negative, that
                    ///< many elements are left out
  Shape dilation;   ///< from one element under the kernel to the next, 1 or more
  /// Channels are in as many groups, and outputs too: each output reads its own group alone.
  std::int64_t groups = 1;

  bool operator==(const ConvolutionWindow&) const = default;
};

/// Each kernel at each element, without padding: what a window begins as.
ConvolutionWindow plain_window(std::size_t dimensions);

/// Lowers `high` of a window until nothing is over at the end: the shapes are those of a
/// convolution's operands and result.
ConvolutionWindow tighten(ConvolutionWindow window, const Shape& input, const Shape& weight,
                          const Shape& output);

/// y[n, k, o] = bias[k] + the sum over c and j of x[n, c, o stride + j dilation - low] w[k, c, j].
/// Operands: x [N, C, spatial...], weight [K, C / groups, kernel...] and, as a third or not at all,
/// bias [K]; the result is [N, K, spatial...].
struct Convolution {
  static constexpr std::string_view name = "convolution";
  static constexpr bool channels_last = true;
  ConvolutionWindow window;

  bool operator==(const Convolution&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Convolution);
METRONOME_CANDIDATES(Convolution);
METRONOME_SAMPLE(Convolution);
METRONOME_CUDA_CANDIDATES(Convolution);

/// A convolution's transpose: x[n, c, i] = bias[c] + the sum over k, o and j with
/// i = o stride + j dilation - low of y[n, k, o] w[k, c, j]. Operands: y [N, K, spatial...],
/// weight [K, C / groups, kernel...] and, as a third or not at all, bias [C]; the result is
/// [N, C, spatial...]. A greater result, where stride leaves the choice, is a lesser `high`.
struct TransposedConvolution {
  static constexpr std::string_view name = "transposed_convolution";
  static constexpr bool channels_last = true;
  ConvolutionWindow window;

  bool operator==(const TransposedConvolution&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(TransposedConvolution);
METRONOME_CANDIDATES(TransposedConvolution);
METRONOME_SAMPLE(TransposedConvolution);
METRONOME_CUDA_CANDIDATES(TransposedConvolution);

/// Operands: x [N, C, spatial...] and the gradient of a convolution's result [N, K, spatial...], of
/// a tightened window; the result is the gradient of its weight, [K, C / groups, kernel...].
struct ConvolutionWeightGrad {
  static constexpr std::string_view name = "convolution_weight_grad";
  static constexpr bool channels_last = true;
  ConvolutionWindow window;

  bool operator==(const ConvolutionWeightGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(ConvolutionWeightGrad);
METRONOME_CANDIDATES(ConvolutionWeightGrad);
METRONOME_SAMPLE(ConvolutionWeightGrad);
METRONOME_CUDA_CANDIDATES(ConvolutionWeightGrad);

}  // namespace metronome
