// The convolutions of a training step, as its declaration implies them.
#pragma once

#include <vector>

#include "executor/metronome.h"
#include "ops/convolution/convolution.h"

namespace metronome::benchmarks {

/// One convolution, or its transpose, that makes the input of the output.
struct ConvolutionLayer {
  ConvolutionWindow window;  ///< tight, so that it is the gradients' too
  Shape input, weight, output;
  Element element = f32;
  bool transposed = false;
  bool operand_gradient = false;  ///< its operand depends on a parameter

  bool operator==(const ConvolutionLayer&) const = default;

  /// Elements of the layer's operand and of its result.
  std::int64_t operand_elements() const { return numel(transposed ? output : input); }
  std::int64_t result_elements() const { return numel(transposed ? input : output); }
};

/// Returns all convolutions of a declared graph, in its order.
std::vector<ConvolutionLayer> convolutions_of(const Graph& declared);

/// Milliseconds that the layers take in one training step when nothing runs but them: the result,
/// the gradient of the weight and, where there is one, that of the operand. Each by the fastest of
/// the kernel that compile chooses and, of f32, of oneDNN's over tensors that lie in its own layout
/// already, or with their channels last.
double convolutions_ms(const std::vector<ConvolutionLayer>& layers, int threads);

}  // namespace metronome::benchmarks
