#include "ops/rules/fault.h"

namespace metronome {

void FaultSlot::report(int place, std::int64_t value) noexcept {
  if (over_ || place > place_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  const int least = place_.load(std::memory_order_relaxed);
  if (place < least || (place == least && value < value_)) {
    place_.store(place, std::memory_order_relaxed);
    value_ = value;
  }
}

std::optional<FaultSlot::Fault> FaultSlot::fault() const {
  if (!any()) return std::nullopt;
  return Fault{place_.load(std::memory_order_relaxed), value_};
}

}  // namespace metronome
