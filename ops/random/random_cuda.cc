#include "ops/cuda/launch.h"
#include "ops/random/draw_rule.h"
#include "ops/random/random.h"
#include "ops/random/random_kernels.h"

namespace metronome {

void record(const Random& op, const CudaLaunch& launch) {
  const std::int64_t count = op.type.numel();
  if (count == 0) return;
  const auto launched = [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    launch.commands.launch(
        cuda::RandomDraw<T>{to, launch.in<long long>(0), launch.in<long long>(1), draw_rule(op),
                            op.key, op.first, count, draw_limits<T>(op, launch), launch.lookups},
        spread(count, 256, launch.device));
  };
  if (op.type.element == f64) {
    launched(launch.out<double>(0));
  } else {
    launched(launch.out<float>(0));
  }
}

}  // namespace metronome
