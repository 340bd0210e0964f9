// Threads inside a kernel: a static partition, so that equal thread counts give equal bits.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace metronome {

/// Elements that are at least worth a part of their own, where a kernel does little with each.
inline constexpr std::int64_t kGrain = 4096;
/// Elements below which threads cost such a kernel more than they save.
inline constexpr std::int64_t kParallelFrom = 32768;
/// Products and convolutions below this run on one thread: a team's start costs 1-2 us, the work of
/// about 0.3 MFLOP.
inline constexpr double kParallelFlops = 1e6;
/// oneDNN allocates in each execute call and spends 0.4 us on it: it is worth that from here.
inline constexpr double kOnednnFlops = 2e6;

/// Elements of one part of `parallel_for`: n over at most `threads` parts, a multiple of `grain`.
constexpr std::int64_t part_size(int threads, std::int64_t n, std::int64_t grain) {
  const std::int64_t step = std::max<std::int64_t>(grain, 1);
  const std::int64_t grains = (n + step - 1) / step;
  return (grains + threads - 1) / threads * step;
}

/// f(begin, end) or f(begin, end, part) for at most `threads` parts of [0, n), each but the last a
/// multiple of `grain`. Part p is [p * part_size, (p + 1) * part_size): it depends on the arguments
/// alone. Parts below `threads`; nothing is called for n == 0. A plain call where one thread is
/// asked for; plain calls one after the other where this is compiled without OpenMP. `f` must not
/// throw.
template <class F>
void parallel_for(int threads, std::int64_t n, std::int64_t grain, const F& f) {
  const auto call = [&f](std::int64_t begin, std::int64_t end, int part) {
    if constexpr (std::invocable<const F&, std::int64_t, std::int64_t, int>) {
      f(begin, end, part);
    } else {
      f(begin, end);
    }
  };
  if (n <= 0) return;
  const std::int64_t size = part_size(threads, n, grain);
  if (threads <= 1 || size >= n) {
    call(0, n, 0);
    return;
  }
#ifdef _OPENMP
  // The team is always of the size asked for, even where there are fewer parts: libgomp ends
  // threads when a team shrinks and starts them anew when it grows.
#pragma omp parallel num_threads(threads)
  for (std::int64_t part = omp_get_thread_num(); part * size < n; part += omp_get_num_threads()) {
    call(part * size, std::min(n, (part + 1) * size), static_cast<int>(part));
  }
#else
  for (std::int64_t part = 0; part * size < n; ++part) {
    call(part * size, std::min(n, (part + 1) * size), static_cast<int>(part));
  }
#endif
}

}  // namespace metronome
