#include "ops/cuda/launch.h"

#include <algorithm>

namespace metronome {

KernelShape spread(std::int64_t count, int threads, const DeviceProperties& device, int each,
                   int waves) {
  constexpr std::int64_t kThreadsAtOnce = 2048;  // of a multiprocessor, sm_80 and sm_90
  const std::int64_t a_block = static_cast<std::int64_t>(threads) * each;
  const std::int64_t wanted = count / a_block + (count % a_block != 0);
  const std::int64_t at_once = device.multiprocessors * (kThreadsAtOnce / threads);
  return {.blocks = std::min(wanted, waves * at_once), .threads = threads};
}

}  // namespace metronome
