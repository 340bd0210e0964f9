#include <array>
#include <cstdint>

#include "ops/cuda/bands.h"
#include "ops/cuda/launch.h"
#include "ops/pool/avg_pool.h"
#include "ops/pool/max_pool.h"
#include "ops/pool/pool_kernels.h"

namespace metronome {
namespace {

using Windows3 = std::array<cuda::PoolWindows, 3>;

Windows3 windows_of(const Windows& w, const Shape& in, const Shape& out) {
  Windows3 result;
  const std::size_t n = w.kernel.size();
  for (std::size_t d = 0; d < n; ++d) {
    result[3 - n + d] = {in[2 + d],   out[2 + d],   w.kernel[d],
                         w.stride[d], w.padding[d], w.dilation[d]};
  }
  return result;
}

template <class T>
void record_max(const MaxPool& op, const CudaLaunch& l) {
  const std::int64_t count = l.outputs[0].numel();
  if (count == 0) return;
  const auto [depth, height, width] = windows_of(op.windows, l.inputs[0].shape, l.outputs[0].shape);
  l.commands.launch(cuda::MaxPool<T>{l.in<T>(0), l.out<T>(0), l.out<int>(1), depth, height, width,
                                     count, l.watch},
                    spread(count, 256, l.device));
}

template <class T>
void record_max_grad(const MaxPoolGrad& op, const CudaLaunch& l) {
  const std::int64_t count = l.outputs[0].numel();
  if (count == 0) return;
  const auto [depth, height, width] = windows_of(op.windows, l.outputs[0].shape, l.inputs[0].shape);
  l.commands.launch(cuda::MaxPoolGrad<T>{l.in<T>(0), l.in<int>(1), l.out<T>(0), depth, height,
                                         width, count, l.watch},
                    spread(count, 256, l.device));
}

}  // namespace

void record(const MaxPool& op, const CudaLaunch& l) {
  l.inputs[0].element == f64 ? record_max<double>(op, l) : record_max<float>(op, l);
}

void record(const MaxPoolGrad& op, const CudaLaunch& l) {
  l.inputs[0].element == f64 ? record_max_grad<double>(op, l) : record_max_grad<float>(op, l);
}

void record(const AvgPool& op, const CudaLaunch& l) {
  const std::size_t n = op.averaging.windows.kernel.size();
  record_bands(op.averaging.bands(spatial_of(l.inputs[0], n)), l);
}

void record(const AvgPoolGrad& op, const CudaLaunch& l) {
  record_bands(transposed(op.averaging.bands(op.size)), l);
}

void record(const AdaptiveAvgPool& op, const CudaLaunch& l) {
  record_bands(adaptive_bands(spatial_of(l.inputs[0], op.out.size()), op.out), l);
}

void record(const AdaptiveAvgPoolGrad& op, const CudaLaunch& l) {
  record_bands(transposed(adaptive_bands(op.size, spatial_of(l.inputs[0], op.size.size()))), l);
}

}  // namespace metronome
