#include "ops/route/route.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kComparisonsForThreads = 32768;  // comparisons: below, threads cost more

/// True where expert a, of weight x, is chosen before expert b, of weight y.
template <class T>
bool before(T x, std::int64_t a, T y, std::int64_t b) {
  if (x == y || (x != x && y != y)) return a < b;
  return x > y || x != x;
}

/// The first of the experts after `last`, in the order in which the row chooses; the first of all
/// where `last` is -1.
template <class T>
std::int64_t next_choice(const T* weights, std::int64_t experts, std::int64_t last) {
  std::int64_t best = -1;
  for (std::int64_t e = 0; e < experts; ++e) {
    if (last >= 0 && !before(weights[last], last, weights[e], e)) continue;
    if (best < 0 || before(weights[e], e, weights[best], best)) best = e;
  }
  return best;
}

template <class T>
CpuKernel route(const Route& op, const CpuLaunch& launch) {
  const Shape& shape = launch.inputs[0].shape;
  return CpuKernel([weights = launch.in<T>(0), choice = launch.out<std::int64_t>(0),
                    slot = launch.out<std::int64_t>(1), row = launch.out<std::int64_t>(2),
                    load = launch.out<std::int64_t>(3), rows = shape[0], experts = shape[1],
                    top = op.top, slots = op.slots, threads = launch.choice.threads] {
    const std::int64_t grain = kComparisonsForThreads / 8 / (experts * top) + 1;
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        std::int64_t last = -1;
        for (std::int64_t k = 0; k < top; ++k) {
          last = next_choice(weights + r * experts, experts, last);
          choice[k * rows + r] = r * experts + last;
        }
      }
    });
    std::memset(load, 0, static_cast<std::size_t>(experts) * sizeof(*load));
    if (slots > 0) std::memset(row, 0, static_cast<std::size_t>(experts * slots) * sizeof(*row));
    for (std::int64_t k = 0; k < top; ++k) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t i = k * rows + r, expert = choice[i] - r * experts;
        const std::int64_t place = load[expert]++;
        const bool kept = place < slots;
        slot[i] = kept ? expert * slots + place : experts * slots;
        if (kept) row[slot[i]] = r;
      }
    }
  });
}

}  // namespace

std::vector<Candidate> candidates(const Route& op, const CpuQuery& query) {
  const std::int64_t comparisons = query.inputs[0].numel() * op.top;
  return {{.threads = comparisons >= kComparisonsForThreads ? query.threads : 1}};
}

CpuKernel bind(const Route& op, const CpuLaunch& launch) {
  return launch.inputs[0].element == f32 ? route<float>(op, launch) : route<double>(op, launch);
}

}  // namespace metronome::METRONOME_ISA
