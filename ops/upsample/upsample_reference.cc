#include <ATen/core/Tensor.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_bilinear2d_backward.h>
#include <ATen/ops/upsample_nearest1d.h>
#include <ATen/ops/upsample_nearest1d_backward.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest2d_backward.h>
#include <ATen/ops/upsample_nearest3d.h>
#include <ATen/ops/upsample_nearest3d_backward.h>

#include <optional>

#include "ops/upsample/upsample.h"

namespace metronome {
namespace {

std::optional<double> scale(const Resizing& r, std::size_t d) {
  return r.scales.empty() ? std::nullopt : std::optional<double>(r.scales[d]);
}

}  // namespace

Tensors reference(const Upsample& op, const Tensors& in) {
  const Resizing& r = op.resizing;
  if (r.mode == Resizing::Mode::bilinear) {
    return {at::upsample_bilinear2d(in[0], r.out, r.align_corners, scale(r, 0), scale(r, 1))};
  }
  switch (r.out.size()) {
    case 1:
      return {at::upsample_nearest1d(in[0], r.out, scale(r, 0))};
    case 2:
      return {at::upsample_nearest2d(in[0], r.out, scale(r, 0), scale(r, 1))};
    default:
      return {at::upsample_nearest3d(in[0], r.out, scale(r, 0), scale(r, 1), scale(r, 2))};
  }
}

Tensors reference(const UpsampleGrad& op, const Tensors& in) {
  const Resizing& r = op.resizing;
  std::vector<std::int64_t> x{in[0].size(0), in[0].size(1)};
  x.insert(x.end(), op.size.begin(), op.size.end());
  if (r.mode == Resizing::Mode::bilinear) {
    return {at::upsample_bilinear2d_backward(in[0], r.out, x, r.align_corners, scale(r, 0),
                                             scale(r, 1))};
  }
  switch (r.out.size()) {
    case 1:
      return {at::upsample_nearest1d_backward(in[0], r.out, x, scale(r, 0))};
    case 2:
      return {at::upsample_nearest2d_backward(in[0], r.out, x, scale(r, 0), scale(r, 1))};
    default:
      return {
          at::upsample_nearest3d_backward(in[0], r.out, x, scale(r, 0), scale(r, 1), scale(r, 2))};
  }
}

}  // namespace metronome
