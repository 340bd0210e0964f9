// The faults that a step met and went on with: where kernels report them, and which is kept.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <mutex>
#include <optional>

namespace metronome {

/// Keeps one fault of the first step that met any: the one of the least place and, of several
/// there, the least value, so that the choice depends on no thread. The executor says what places
/// and values stand for.
class FaultSlot {
 public:
  struct Fault {
    int place = 0;
    std::int64_t value = 0;
    bool operator==(const Fault&) const = default;
  };

  /// From any thread of a step's kernels. Nothing once a step that met a fault is over.
  void report(int place, std::int64_t value) noexcept;
  /// Between steps.
  void end_step() noexcept { over_ = any(); }

  bool any() const noexcept { return place_.load(std::memory_order_relaxed) != INT_MAX; }
  std::optional<Fault> fault() const;

 private:
  std::mutex mutex_;  // of value_
  std::atomic<int> place_{INT_MAX};
  std::int64_t value_ = 0;
  bool over_ = false;
};

}  // namespace metronome
