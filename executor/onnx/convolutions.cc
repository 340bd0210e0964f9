// Convolutions. ONNX Runtime has them in f32 alone; in f64 they are a sum of products, one for each
// place of the kernel:
//
//   x [N, C, in...]  padded; cut from place j on, every `stride`-th element   [N, C, out...]
//   w [K, C, k...]   place j                                                  [K, C]
//   product          of the two                                               [N, K, out...]
#include <algorithm>

#include "executor/onnx/mappings.h"
#include "ops/convolution/convolution.h"

namespace metronome::onnx {
namespace {

using Numbers = std::vector<std::int64_t>;

bool any_below_0(const Shape& numbers) {
  return std::ranges::any_of(numbers, [](std::int64_t n) { return n < 0; });
}

Shape clip_at_0(Shape numbers) {
  for (std::int64_t& n : numbers) n = std::max<std::int64_t>(n, 0);
  return numbers;
}

/// Zeros around the spatial dimensions; numbers below 0 cut off.
std::string pad_spatial(NodeWriter& writer, const std::string& x, const Shape& low,
                        const Shape& high, Element element) {
  Numbers pads{0, 0};
  pads.insert(pads.end(), low.begin(), low.end());
  pads.insert(pads.end(), {0, 0});
  pads.insert(pads.end(), high.begin(), high.end());
  return writer.call("Pad", {x, writer.integers(std::move(pads)), writer.number(0, element)});
}

Attributes attributes_of(const ConvolutionWindow& window, const Shape& low, const Shape& high) {
  Numbers pads = low;
  pads.insert(pads.end(), high.begin(), high.end());
  return {{"strides", window.stride},
          {"dilations", window.dilation},
          {"group", window.groups},
          {"pads", std::move(pads)}};
}

/// The result and a bias for each channel, if there is one among the operands.
std::string add_bias(NodeWriter& writer, const std::string& x) {
  if (writer.operands() < 3) return x;
  Numbers shape(static_cast<std::size_t>(writer.result().rank()) - 1, 1);
  shape[0] = -1;
  const std::string bias = writer.call("Reshape", {writer.in(2), writer.integers(shape)});
  return writer.call("Add", {x, bias});
}

// ---- f64 ----------------------------------------------------------------------------------------

/// The spatial sizes of operand 0 or of the result; refuses those that differ between the graphs.
Shape fixed_spatial(const NodeWriter& writer, const SizesByGraph& sizes) {
  return writer.require_fixed(
      std::span(sizes).subspan(2),
      "its spatial sizes differ between the compiled sizes, and it is of f64");
}

/// A dense sum over the places of a kernel, of groups of channels.
struct Taps {
  Shape kernel;
  Shape result;          ///< spatial sizes
  Shape stride;          ///< between the elements that a place reads
  Shape dilation;        ///< between places
  bool flipped = false;  ///< the last place of the kernel reads the first elements
  std::int64_t groups = 1, channels = 1, results = 1;
};

/// One group's matrix [results, channels] for each group, of place `at` of the weight.
std::string tap_weight(NodeWriter& writer, const Taps& taps, const Shape& at) {
  Numbers ends = at, axes;
  for (std::size_t d = 0; d < at.size(); ++d) {
    ends[d] += 1;
    axes.push_back(static_cast<std::int64_t>(d) + 2);
  }
  const std::string cut = writer.call(
      "Slice", {writer.in(1), writer.integers(at), writer.integers(ends), writer.integers(axes)});
  const std::int64_t rows = (taps.flipped ? taps.channels : taps.results) / taps.groups;
  const std::string matrices =
      writer.call("Reshape", {cut, writer.integers({taps.groups, rows, -1})});
  return taps.flipped ? writer.transpose(matrices, {0, 2, 1}) : matrices;
}

/// The elements that place `at` reads of the padded operand, as [N, groups, channels, elements].
std::string tap_operand(NodeWriter& writer, const Taps& taps, const std::string& x,
                        const Shape& at) {
  Numbers begins, ends, axes;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const std::int64_t place = taps.flipped ? taps.kernel[d] - 1 - at[d] : at[d];
    begins.push_back(place * taps.dilation[d]);
    ends.push_back(begins[d] + (taps.result[d] - 1) * taps.stride[d] + 1);
    axes.push_back(static_cast<std::int64_t>(d) + 2);
  }
  const std::string cut =
      writer.call("Slice", {x, writer.integers(begins), writer.integers(ends),
                            writer.integers(axes), writer.integers(taps.stride)});
  return writer.call(
      "Reshape",
      {cut, writer.integers({0, taps.groups, taps.channels / taps.groups, numel(taps.result)})});
}

/// The next place, row-major; false behind the last.
bool advance(Shape& at, const Shape& kernel) {
  for (std::size_t d = at.size(); d-- > 0;) {
    if (++at[d] < kernel[d]) return true;
    at[d] = 0;
  }
  return false;
}

std::string sum_taps(NodeWriter& writer, const Taps& taps, const std::string& x) {
  std::string sum;
  Shape at(taps.kernel.size(), 0);
  do {
    const std::string product =
        writer.call("MatMul", {tap_weight(writer, taps, at), tap_operand(writer, taps, x, at)});
    sum = sum.empty() ? product : writer.call("Add", {sum, product});
  } while (advance(at, taps.kernel));
  Numbers shape{0, taps.results};
  shape.insert(shape.end(), taps.result.begin(), taps.result.end());
  return add_bias(writer, writer.call("Reshape", {sum, writer.integers(std::move(shape))}));
}

Taps taps_of(const NodeWriter& writer, const ConvolutionWindow& window) {
  const Shape& weight = writer.type(1).shape;
  return {.kernel = Shape(weight.begin() + 2, weight.end()),
          .result = fixed_spatial(writer, writer.result_sizes()),
          .stride = window.stride,
          .dilation = window.dilation,
          .groups = window.groups,
          .channels = writer.type(0).shape[1],
          .results = writer.result().shape[1]};
}

/// `count - 1` zeros between the elements of an axis.
std::string spread(NodeWriter& writer, const std::string& x, std::size_t axis, std::int64_t count,
                   Shape& spatial) {
  if (count == 1) return x;
  const std::string apart = writer.unsqueeze(x, static_cast<std::int64_t>(axis) + 1);
  Numbers pads(2 * (spatial.size() + 3), 0);
  pads[spatial.size() + 3 + axis + 1] = count - 1;
  const std::string padded =
      writer.call("Pad", {apart, writer.integers(std::move(pads)), writer.number(0, f64)});
  std::int64_t& size = spatial[axis - 2];
  const std::int64_t whole = size * count;
  size = whole;
  Numbers shape{0, 0};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  const std::string joined = writer.call("Reshape", {padded, writer.integers(std::move(shape))});
  size = whole - count + 1;
  return writer.slice(joined, static_cast<std::int64_t>(axis), 0, size);
}

// ---- the ops ------------------------------------------------------------------------------------

Names write_convolution(const Convolution& op, NodeWriter& writer) {
  const ConvolutionWindow& window = op.window;
  const Element element = writer.type(0).element;
  std::string x = writer.in(0);
  if (element == f64) {
    x = pad_spatial(writer, x, window.low, window.high, element);
    return {sum_taps(writer, taps_of(writer, window), x)};
  }
  Shape low = window.low, high = window.high;
  if (any_below_0(low) || any_below_0(high)) {
    x = pad_spatial(writer, x, low, high, element);
    low.assign(low.size(), 0);
    high.assign(high.size(), 0);
  }
  Names operands{x, writer.in(1)};
  if (writer.operands() == 3) operands.push_back(writer.in(2));
  return {writer.call("Conv", std::move(operands), attributes_of(window, low, high))};
}

/// In f64: a convolution by the flipped kernel of the operand with zeros between its elements.
std::string transposed_by_taps(NodeWriter& writer, const ConvolutionWindow& window) {
  Taps taps = taps_of(writer, window);
  Shape spatial = fixed_spatial(writer, writer.sizes(0));
  std::string y = writer.in(0);
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    y = spread(writer, y, d + 2, window.stride[d], spatial);
  }
  Shape low, high;
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    const std::int64_t reach = (taps.kernel[d] - 1) * window.dilation[d];
    low.push_back(reach - window.low[d]);
    high.push_back(reach - window.high[d]);
  }
  taps.stride.assign(spatial.size(), 1);
  taps.flipped = true;
  return sum_taps(writer, taps, pad_spatial(writer, y, low, high, f64));
}

Names write_transposed(const TransposedConvolution& op, NodeWriter& writer) {
  const ConvolutionWindow& window = op.window;
  if (writer.type(0).element == f64) return {transposed_by_taps(writer, window)};
  const bool grows = any_below_0(window.low) || any_below_0(window.high);
  Names operands{writer.in(0), writer.in(1)};
  if (!grows && writer.operands() == 3) operands.push_back(writer.in(2));
  const std::string x =
      writer.call("ConvTranspose", std::move(operands),
                  attributes_of(window, clip_at_0(window.low), clip_at_0(window.high)));
  if (!grows) return {x};
  Shape low, high;
  for (std::size_t d = 0; d < window.low.size(); ++d) {
    low.push_back(std::max<std::int64_t>(-window.low[d], 0));
    high.push_back(std::max<std::int64_t>(-window.high[d], 0));
  }
  return {add_bias(writer, pad_spatial(writer, x, low, high, f32))};
}

}  // namespace

std::span<const Mapping> convolution_mappings() {
  static const Mapping kMappings[] = {
      mapping<Convolution, write_convolution>(),
      mapping<TransposedConvolution, write_transposed>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
