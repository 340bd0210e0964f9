#include "benchmarks/gpu_check/place.h"

namespace metronome::gpu_check {

Target placed(Target target) {
  target.device = cuda_device(0);
  target.cuda.device = 0;
  return target;
}

}  // namespace metronome::gpu_check
