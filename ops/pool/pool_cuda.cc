#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/bands/bands_cuda.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/pool/avg_pool.h"
#include "ops/pool/max_pool.h"
#include "ops/pool/pool_kernels.h"

namespace metronome {
namespace {

using Windows3 = std::array<cuda::PoolWindows, 3>;

/// Whether windows of 2 by 2 lie side by side and fill their planes.
bool are_halves(const Windows3& windows) {
  const auto& [depth, height, width] = windows;
  const auto halved = [](const cuda::PoolWindows& w) {
    return w.kernel == 2 && w.stride == 2 && w.padding == 0 && w.dilation == 1 && w.in == 2 * w.out;
  };
  const bool flat = depth.kernel == 1 && depth.stride == 1 && depth.padding == 0;
  return flat && halved(height) && halved(width);
}

/// The windows of `results` as halves, if they are some that packs divide. `elements` is the tensor
/// that they lie in.
template <class T>
std::optional<cuda::Halves<T>> halves_of(const Windows3& windows, const Type& results,
                                         const void* elements, const void* result,
                                         const void* winner) {
  using Halves = cuda::Halves<T>;
  constexpr std::int64_t kWindows = Halves::kWindows;
  const bool packed = windows[2].out % kWindows == 0 &&
                      address(elements) % alignof(typename Halves::Elements) == 0 &&
                      address(result) % alignof(typename Halves::Results) == 0 &&
                      address(winner) % alignof(typename Halves::Winners) == 0;
  if (!packed || !are_halves(windows)) return std::nullopt;
  return Halves{windows[2].out / kWindows, results.numel() / kWindows};
}

/// The same where channels lie last.
template <class T>
std::optional<cuda::QuartersLast<T>> quarters_of(const Windows3& windows, const Type& results,
                                                 const void* elements, const void* result,
                                                 const void* winner) {
  using Quarters = cuda::QuartersLast<T>;
  constexpr std::int64_t kChannels = Quarters::kChannels;
  const bool packed = results.shape[1] % kChannels == 0 &&
                      address(elements) % alignof(typename Quarters::Elements) == 0 &&
                      address(result) % alignof(typename Quarters::Elements) == 0 &&
                      address(winner) % alignof(typename Quarters::Winners) == 0;
  if (!packed || !are_halves(windows)) return std::nullopt;
  const std::int64_t packs = results.shape[1] / kChannels;
  return Quarters{packs, windows[2].out * packs, results.numel() / kChannels};
}

constexpr int kPoolThreads = 256;

template <class T>
void record_max(const MaxPool& op, const CudaLaunch& l) {
  using Halves = cuda::Halves<T>;
  const Type& results = l.outputs[0];
  if (results.numel() == 0) return;
  const Windows3 windows =
      windows_along<cuda::PoolWindows>(op.windows, l.inputs[0].shape, results.shape);
  if (l.channels_last) {
    using Quarters = cuda::QuartersLast<T>;
    if (const auto quarters =
            quarters_of<T>(windows, results, l.input_data[0], l.output_data[0], l.output_data[1])) {
      l.commands.launch(
          cuda::QuartersLastMaxPool<T>{l.in<typename Quarters::Elements>(0),
                                       l.out<typename Quarters::Elements>(0),
                                       l.out<typename Quarters::Winners>(1), *quarters, l.watch},
          spread(quarters->count, kPoolThreads, l.device));
      return;
    }
  } else if (const auto halves = halves_of<T>(windows, results, l.input_data[0], l.output_data[0],
                                              l.output_data[1])) {
    l.commands.launch(cuda::HalvesMaxPool<T>{l.in<typename Halves::Elements>(0),
                                             l.out<typename Halves::Results>(0),
                                             l.out<typename Halves::Winners>(1), *halves, l.watch},
                      spread(halves->count, kPoolThreads, l.device));
    return;
  }
  const auto& [depth, height, width] = windows;
  l.commands.launch(cuda::MaxPool<T>{l.in<T>(0), l.out<T>(0), l.out<int>(1), depth, height, width,
                                     inner_channels(l, results), results.numel(), l.watch},
                    spread(results.numel(), kPoolThreads, l.device));
}

template <class T>
void record_max_grad(const MaxPoolGrad& op, const CudaLaunch& l) {
  using Halves = cuda::Halves<T>;
  const Type &elements = l.outputs[0], &results = l.inputs[0];
  if (elements.numel() == 0) return;
  const Windows3 windows =
      windows_along<cuda::PoolWindows>(op.windows, elements.shape, results.shape);
  if (l.channels_last) {
    using Quarters = cuda::QuartersLast<T>;
    if (const auto quarters =
            quarters_of<T>(windows, results, l.output_data[0], l.input_data[0], l.input_data[1])) {
      l.commands.launch(cuda::QuartersLastMaxPoolGrad<T>{l.in<typename Quarters::Elements>(0),
                                                         l.in<typename Quarters::Winners>(1),
                                                         l.out<typename Quarters::Elements>(0),
                                                         *quarters, l.watch},
                        spread(quarters->count, kPoolThreads, l.device));
      return;
    }
  } else if (const auto halves = halves_of<T>(windows, results, l.output_data[0], l.input_data[0],
                                              l.input_data[1])) {
    l.commands.launch(
        cuda::HalvesMaxPoolGrad<T>{l.in<typename Halves::Results>(0),
                                   l.in<typename Halves::Winners>(1),
                                   l.out<typename Halves::Elements>(0), *halves, l.watch},
        spread(halves->count, kPoolThreads, l.device));
    return;
  }
  const auto& [depth, height, width] = windows;
  l.commands.launch(
      cuda::MaxPoolGrad<T>{l.in<T>(0), l.in<int>(1), l.out<T>(0), depth, height, width,
                           inner_channels(l, elements), elements.numel(), l.watch},
      spread(elements.numel(), kPoolThreads, l.device));
}

}  // namespace

void record(const MaxPool& op, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_max<decltype(x)>(op, l); });
}

void record(const MaxPoolGrad& op, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_max_grad<decltype(x)>(op, l); });
}

void record(const AvgPool& op, const CudaLaunch& l) {
  const std::size_t n = op.averaging.windows.kernel.size();
  record_bands(op.averaging.bands(spatial_of(l.inputs[0], n)), l);
}

void record(const AvgPoolGrad& op, const CudaLaunch& l) {
  record_bands(transpose_bands(op.averaging.bands(op.size)), l);
}

void record(const AdaptiveAvgPool& op, const CudaLaunch& l) {
  record_bands(adaptive_bands(spatial_of(l.inputs[0], op.out.size()), op.out), l);
}

void record(const AdaptiveAvgPoolGrad& op, const CudaLaunch& l) {
  record_bands(transpose_bands(adaptive_bands(op.size, spatial_of(l.inputs[0], op.size.size()))),
               l);
}

}  // namespace metronome
