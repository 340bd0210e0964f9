// Layers: callables Value -> Value that make their own parameters, begun as PyTorch begins them.
//
//   x.through(linear(1024)).through(gelu).through(layer_norm())
//
// A layer only describes: each call makes fresh parameters at the current path (`linear/weight`),
// of the element type of what it is applied to. A wrong argument or operand is recorded in the
// graph when the layer is applied, with the line of the caller. `weight_init` and `bias_init` of
// their options replace how parameters begin: `linear(10, {.weight_init = zeros()})`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"

namespace metronome {

class Op;

struct LinearOptions {
  bool bias = true;
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
};

/// x W^T + bias for x [..., in]: weight [out, in] and bias [out], both uniform in +-1/sqrt(in).
Layer linear(std::int64_t out, LinearOptions options = {});
/// x W^T + bias of values: weight [out, in] and, if present, bias [out]. With another layer's
/// weight
/// (`Graph::parameter(path)`) the two are tied.
Value linear(Value x, Value weight, Value bias = {}, Line line = Line::here());

struct LayerNormOptions {
  double eps = 1e-5;
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
};

/// Normalises the last dimension; weight begins as ones, bias as zeros. See
/// ops/layer_norm/layer_norm.h.
Layer layer_norm(LayerNormOptions options = {});

struct RmsNormOptions {
  std::optional<double> eps = {};  ///< absent: the element's machine epsilon, as in PyTorch
  std::optional<Init> weight_init = {};
};

/// x / sqrt(average(x^2) + eps) over the last dimension, times a weight that begins as ones. See
/// ops/rms_norm/rms_norm.h.
Layer rms_norm(RmsNormOptions options = {});

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< share of this batch in the running statistics
  std::optional<Init> weight_init = {};
  std::optional<Init> bias_init = {};
};

/// Normalises each channel of x [N, C, ...] over all else, and keeps running statistics (buffers
/// `running_mean`, `running_var`) that evaluation reads. Weight begins as ones, bias as zeros.
Layer batch_norm(BatchNormOptions options = {});
/// Makes `batch_norm` of another op with the operands and results of `BatchNorm`; `outputs` counts
/// those that it saves, too.
Layer batch_norm_by(std::shared_ptr<const Op> op, std::size_t outputs, BatchNormOptions options);

/// Zeroes elements with probability p and scales the others by 1 / (1 - p); the identity in
/// evaluation.
Layer dropout(double p = 0.5);

struct EmbeddingOptions {
  Element element = f32;
  std::optional<Init> weight_init = {};
  /// An index equal to it reads a row of zeros and gives the table no gradient, whatever the table
  /// holds there. Counts from the end if negative.
  std::optional<std::int64_t> padding_index = {};
};

/// Rows of a table [vocabulary, width], drawn from N(0, 1), by indices of i32 or i64; the result is
/// [..., width].
Layer embedding(std::int64_t vocabulary, std::int64_t width, EmbeddingOptions options = {});

/// exp(x) / sum(exp(x)) along an axis, and its logarithm: as a layer, and of a value.
Layer softmax(std::int64_t axis = -1);
Layer log_softmax(std::int64_t axis = -1);
Value softmax(Value x, std::int64_t axis = -1, Line line = Line::here());
Value log_softmax(Value x, std::int64_t axis = -1, Line line = Line::here());

/// Matrix product over the last two dimensions; leading dimensions are broadcast.
Value matmul(Value a, Value b, Line line = Line::here());

}  // namespace metronome
