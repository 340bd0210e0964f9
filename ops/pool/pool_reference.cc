#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_adaptive_avg_pool2d_backward.h>
#include <ATen/ops/_adaptive_avg_pool3d_backward.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/avg_pool3d_backward.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <optional>

#include "ops/pool/avg_pool.h"
#include "ops/pool/max_pool.h"

namespace metronome {
namespace {

/// One spatial dimension is two for libtorch's calls, the first of one element.
at::Tensor add_dimension(const at::Tensor& x) { return x.dim() == 3 ? x.unsqueeze(2) : x; }
Tensors drop_dimension(const at::Tensor& y, std::size_t dimensions) {
  return {dimensions == 1 ? y.squeeze(2) : y};
}
Spatial add_dimension(const Spatial& numbers, std::int64_t one) {
  return numbers.size() == 1 ? Spatial{one, numbers[0]} : numbers;
}

/// The element of its plane that each window's winner is; a winner outside of the plane, which does
/// not count: one beyond its last.
at::Tensor places_of(const at::Tensor& winner, const Windows& w, const Spatial& size) {
  at::Tensor taps = winner.to(at::kLong), place = at::zeros_like(taps);
  at::Tensor inside = taps.ge(0);
  std::int64_t inner = 1;
  for (std::size_t d = size.size(); d-- > 0;) {
    std::vector<std::int64_t> along(size.size() + 2, 1);
    along[d + 2] = taps.size(static_cast<std::int64_t>(d) + 2);
    const at::Tensor begin = at::arange(along[d + 2], taps.options()).reshape(along) * w.stride[d];
    const at::Tensor at = begin + taps.remainder(w.kernel[d]) * w.dilation[d] - w.padding[d];
    inside = inside.logical_and(at.ge(0)).logical_and(at.lt(size[d]));
    place = place + at * inner;
    taps = taps.floor_divide(w.kernel[d]);
    inner *= size[d];
  }
  return at::where(inside, place, inner);
}

}  // namespace

Tensors reference(const MaxPool& op, const Tensors& in) {
  const Windows& w = op.windows;
  const std::size_t n = w.kernel.size();
  if (n == 3) {
    return {at::max_pool3d(in[0], w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode)};
  }
  return drop_dimension(
      at::max_pool2d(add_dimension(in[0]), add_dimension(w.kernel, 1), add_dimension(w.stride, 1),
                     add_dimension(w.padding, 0), add_dimension(w.dilation, 1), w.ceil_mode),
      n);
}

Tensors reference(const MaxPoolGrad& op, const Tensors& in) {
  const at::Tensor place = places_of(in[1], op.windows, op.size);
  const std::int64_t count = numel(op.size);
  std::vector<std::int64_t> shape{in[0].size(0), in[0].size(1)};
  shape.insert(shape.end(), op.size.begin(), op.size.end());
  return {at::zeros({in[0].size(0), in[0].size(1), count + 1}, in[0].options())
              .scatter_add(2, place.flatten(2), in[0].flatten(2))
              .slice(2, 0, count)
              .reshape(shape)};
}

Tensors reference(const AvgPool& op, const Tensors& in) {
  const Windows& w = op.averaging.windows;
  const std::size_t n = w.kernel.size();
  const bool counts = op.averaging.count_include_pad;
  if (n == 3) {
    return {at::avg_pool3d(in[0], w.kernel, w.stride, w.padding, w.ceil_mode, counts,
                           op.averaging.divisor)};
  }
  return drop_dimension(
      at::avg_pool2d(add_dimension(in[0]), add_dimension(w.kernel, 1), add_dimension(w.stride, 1),
                     add_dimension(w.padding, 0), w.ceil_mode, counts, op.averaging.divisor),
      n);
}

Tensors reference(const AvgPoolGrad& op, const Tensors& in) {
  const Windows& w = op.averaging.windows;
  const std::size_t n = w.kernel.size();
  const bool counts = op.averaging.count_include_pad;
  std::vector<std::int64_t> shape{in[0].size(0), in[0].size(1)};
  shape.insert(shape.end(), op.size.begin(), op.size.end());
  const at::Tensor x = at::zeros(shape, in[0].options());
  if (n == 3) {
    return {at::avg_pool3d_backward(in[0], x, w.kernel, w.stride, w.padding, w.ceil_mode, counts,
                                    op.averaging.divisor)};
  }
  return drop_dimension(
      at::avg_pool2d_backward(add_dimension(in[0]), add_dimension(x), add_dimension(w.kernel, 1),
                              add_dimension(w.stride, 1), add_dimension(w.padding, 0), w.ceil_mode,
                              counts, op.averaging.divisor),
      n);
}

Tensors reference(const AdaptiveAvgPool& op, const Tensors& in) {
  if (op.out.size() == 3) return {at::adaptive_avg_pool3d(in[0], op.out)};
  return drop_dimension(at::adaptive_avg_pool2d(add_dimension(in[0]), add_dimension(op.out, 1)),
                        op.out.size());
}

Tensors reference(const AdaptiveAvgPoolGrad& op, const Tensors& in) {
  std::vector<std::int64_t> shape{in[0].size(0), in[0].size(1)};
  shape.insert(shape.end(), op.size.begin(), op.size.end());
  const at::Tensor x = at::zeros(shape, in[0].options());
  if (op.size.size() == 3) return {at::_adaptive_avg_pool3d_backward(in[0], x)};
  return drop_dimension(at::_adaptive_avg_pool2d_backward(add_dimension(in[0]), add_dimension(x)),
                        op.size.size());
}

}  // namespace metronome
