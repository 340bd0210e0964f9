#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/shuffle/shuffle_order.h"

namespace metronome::METRONOME_ISA {

CpuKernel bind(const Shuffle& op, const CpuLaunch& launch) {
  constexpr std::int64_t kShuffleGrain = 512;
  return CpuKernel([op, to = launch.out<std::int64_t>(0), seed = launch.in<std::int64_t>(0),
                    positions = launch.in<std::int64_t>(1), n = launch.outputs[0].numel(),
                    threads = launch.choice.threads] {
    parallel_for(threads, n, kShuffleGrain, [&](std::int64_t begin, std::int64_t end) {
      shuffle_positions(op, *seed, positions, to, begin, end);
    });
  });
}

}  // namespace metronome::METRONOME_ISA
