#include "ops/bands/bands_cuda.h"

#include <cstddef>
#include <span>
#include <vector>

#include "ops/bands/bands_kernels.h"
#include "ops/rules/by_element.h"

namespace metronome {
namespace {

template <class T>
const T* keep_table(const std::vector<T>& table, const CudaLaunch& launch) {
  return static_cast<const T*>(launch.constants.keep(std::as_bytes(std::span(table))));
}

cuda::BandTable table_of(const Bands& bands, const CudaLaunch& launch) {
  return {bands.in,
          bands.out(),
          bands.step,
          keep_table(bands.begin, launch),
          keep_table(bands.count, launch),
          keep_table(bands.at, launch),
          keep_table(bands.weight, launch)};
}

template <class T>
void record_of(const BandsOf3& bands, const CudaLaunch& launch) {
  const std::int64_t count = launch.outputs[0].numel();
  if (count == 0) return;
  launch.commands.launch(
      cuda::Bands<T>{launch.in<T>(0), launch.out<T>(0), table_of(bands[0], launch),
                     table_of(bands[1], launch), table_of(bands[2], launch),
                     inner_channels(launch, launch.outputs[0]), count, launch.watch},
      spread(count, 256, launch.device));
}

}  // namespace

void record_bands(const BandsOf3& bands, const CudaLaunch& launch) {
  with_floating(launch.outputs[0].element, [&](auto x) { record_of<decltype(x)>(bands, launch); });
}

}  // namespace metronome
