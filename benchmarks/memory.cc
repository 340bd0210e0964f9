#include "benchmarks/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>

namespace metronome::benchmarks {
namespace {

// libtorch's CPU allocator tells a profiler of every block; it knows the blocks that it announced
// and says nothing of older ones.
class AllocationCounter final : public c10::MemoryReportingInfoBase {
 public:
  bool memoryProfilingEnabled() const override { return true; }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    const std::lock_guard lock(mutex_);
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  std::size_t peak() const { return static_cast<std::size_t>(peak_); }

 private:
  std::mutex mutex_;
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

c10::CachingAllocator::Stat allocation_stat(int device) {
  const auto stats =
      c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  return stats
      .allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

}  // namespace

std::size_t allocated_on_device(int device) {
  return static_cast<std::size_t>(allocation_stat(device).current);
}

std::size_t peak_on_device(int device, const std::function<void()>& call) {
  c10::getDeviceAllocator(c10::kCUDA)->resetPeakStats(static_cast<c10::DeviceIndex>(device));
  call();
  return static_cast<std::size_t>(allocation_stat(device).peak);
}

void keep_freed_memory() {
  // As `./metronome peers` sets it for each of its processes. A C library that refuses it is left
  // as it is.
  constexpr int kAnySize = 1 << 30;
  static_cast<void>(mallopt(M_MMAP_THRESHOLD, kAnySize));
  static_cast<void>(mallopt(M_TRIM_THRESHOLD, kAnySize));
}

std::size_t peak_tensor_bytes(const std::function<void()>& call) {
  const auto watch = std::make_shared<AllocationCounter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, watch);
  call();
  return watch->peak();
}

}  // namespace metronome::benchmarks
