#include "distributed/join/buckets.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "distributed/collectives/all_reduce.h"

namespace metronome::distributed {
namespace {

/// Less than this is one bucket wherever ranks are processes.
constexpr std::size_t kFewBytes = 256 << 10;
constexpr std::size_t kSmall = 1 << 10, kLarge = 4 << 20;
constexpr int kTimes = 5;

/// Seconds that an all-reduce of so many bytes takes, once all ranks are there: the least of some.
double seconds_of(Communicator& ranks, std::size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  std::vector<std::byte> scratch(
      all_reduce_scratch(f32, static_cast<std::int64_t>(values.size()), ranks.size()));
  double least = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    all_reduce(ranks, ReduceOp::sum, f32, std::as_writable_bytes(std::span(values)), scratch);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

}  // namespace

std::size_t best_bucket_bytes(Communicator& ranks, std::size_t gradients) {
  if (ranks.size() == 1 || gradients <= kFewBytes) return gradients;
  const auto as_first = [&](std::uint64_t own) {
    ranks.broadcast(std::as_writable_bytes(std::span(&own, 1)), 0);
    return own;
  };
  if (as_first(ranks.overlaps() ? 1 : 0) == 0) return gradients;
  const double each = seconds_of(ranks, kSmall);
  const double of_byte = std::max(1e-12, (seconds_of(ranks, kLarge) - each) / kLarge);
  // n buckets: n x each + all / n bytes that nothing hides.
  const double least = std::sqrt(static_cast<double>(gradients) * each / of_byte);
  return as_first(std::clamp(static_cast<std::size_t>(least), kFewBytes, gradients));
}

}  // namespace metronome::distributed
