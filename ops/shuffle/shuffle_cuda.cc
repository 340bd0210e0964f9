#include "ops/cuda/launch.h"
#include "ops/shuffle/shuffle.h"
#include "ops/shuffle/shuffle_kernels.h"

namespace metronome {

void record(const Shuffle& op, const CudaLaunch& launch) {
  const std::int64_t count = launch.outputs[0].numel();
  if (count == 0) return;
  launch.commands.launch(cuda::ShufflePositions{launch.out<long long>(0), launch.in<long long>(0),
                                                launch.in<long long>(1), op.key,
                                                static_cast<unsigned long long>(op.rows), count},
                         spread(count, 256, launch.device));
}

}  // namespace metronome
