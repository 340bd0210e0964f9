#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "ops/convolution/convolution.h"

namespace metronome {
namespace {

/// x with the window's padding around it, or less than x; libtorch counts from the last dimension.
at::Tensor pad_by_window(const at::Tensor& x, const ConvolutionWindow& w, int sign) {
  std::vector<std::int64_t> sizes;
  for (std::size_t d = w.low.size(); d-- > 0;) {
    sizes.insert(sizes.end(), {sign * w.low[d], sign * w.high[d]});
  }
  if (std::ranges::count(sizes, 0) == static_cast<std::ptrdiff_t>(sizes.size())) return x;
  return at::constant_pad_nd(x, sizes);
}

/// True where libtorch takes the padding itself.
bool plain(const Shape& padding) {
  return std::ranges::all_of(padding, [](std::int64_t number) { return number >= 0; });
}

/// libtorch's name of a `high` that is less than `low`; empty if it has none.
Shape output_padding(const ConvolutionWindow& w) {
  Shape result;
  for (std::size_t d = 0; d < w.low.size(); ++d) {
    const std::int64_t more = w.low[d] - w.high[d];
    if (more < 0 || more >= std::max(w.stride[d], w.dilation[d])) return {};
    result.push_back(more);
  }
  return result;
}

}  // namespace

Tensors reference(const Convolution& op, const Tensors& in) {
  const ConvolutionWindow& w = op.window;
  const bool itself = w.low == w.high && plain(w.low);
  const Shape none(w.low.size(), 0);
  return {at::convolution(itself ? in[0] : pad_by_window(in[0], w, 1), in[1],
                          in.size() > 2 ? in[2] : at::Tensor(), w.stride, itself ? w.low : none,
                          w.dilation, false, none, w.groups)};
}

Tensors reference(const TransposedConvolution& op, const Tensors& in) {
  const ConvolutionWindow& w = op.window;
  const at::Tensor bias = in.size() > 2 ? in[2] : at::Tensor();
  const Shape more = output_padding(w);
  if (!more.empty() && plain(w.low)) {
    return {at::convolution(in[0], in[1], bias, w.stride, w.low, w.dilation, true, more, w.groups)};
  }
  const Shape none(w.low.size(), 0);
  const at::Tensor whole =
      at::convolution(in[0], in[1], at::Tensor(), w.stride, none, w.dilation, true, none, w.groups);
  const at::Tensor x = pad_by_window(whole, w, -1);
  if (!bias.defined()) return {x};
  std::vector<std::int64_t> by_channel(static_cast<std::size_t>(x.dim()), 1);
  by_channel[1] = -1;
  return {at::add(x, bias.view(by_channel))};
}

Tensors reference(const ConvolutionWeightGrad& op, const Tensors& in) {
  const ConvolutionWindow& w = op.window;
  const at::Tensor x = pad_by_window(in[0], w, 1);
  std::vector<std::int64_t> shape = {in[1].size(1), in[0].size(1) / w.groups};
  for (std::size_t d = 0; d < w.low.size(); ++d) {
    const auto axis = static_cast<std::int64_t>(d) + 2;
    shape.push_back((x.size(axis) - 1 - (in[1].size(axis) - 1) * w.stride[d]) / w.dilation[d] + 1);
  }
  const Shape none(w.low.size(), 0);
  return {std::get<1>(at::convolution_backward(in[1], x, at::empty(shape, x.options()),
                                               c10::nullopt, w.stride, none, w.dilation, false,
                                               none, w.groups, {false, true, false}))};
}

}  // namespace metronome
