#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/random/draw_rule.h"
#include "ops/random/random.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {

CpuKernel bind(const Random& op, const CpuLaunch& launch) {
  return with_floating(op.type.element, [&](auto zero) {
    using T = decltype(zero);
    constexpr std::int64_t kDrawsGrain = 512;
    return CpuKernel([rule = draw_rule(op), key = op.key, first = op.first, to = launch.out<T>(0),
                      seed = launch.in<std::int64_t>(0), draws = launch.in<std::int64_t>(1),
                      limits = draw_limits<T>(op, launch), fault = launch.fault,
                      n = launch.outputs[0].numel(), threads = launch.choice.threads] {
      const auto s = static_cast<std::uint64_t>(*seed), d = static_cast<std::uint64_t>(*draws);
      parallel_for(threads, n, kDrawsGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if (limits.refuse(i)) fault.report(cuda::order_of(limits.numbers[i]));
          to[i] = cuda::drawn(rule, s, d, key, first + static_cast<std::uint64_t>(i), to);
        }
      });
    });
  });
}

}  // namespace metronome::METRONOME_ISA
