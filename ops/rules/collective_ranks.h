// The ranks of a collective, as the libraries of devices know them.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace metronome {

/// How long ranks wait for each other.
struct CollectiveLimits {
  std::chrono::milliseconds connect{30'000};      ///< until all are connected
  std::chrono::milliseconds collective{600'000};  ///< in one call, to which others may come late
};

/// A collective of a step.
struct CollectivePlace {
  std::int64_t step = 0;
  std::int64_t number = 0;  ///< of the step's, from 0
  std::string name;         ///< "all_reduce {mean, ranks=2} "gradients/all_reduce""

  bool operator==(const CollectivePlace&) const = default;
};

/// Tells where a device stands in its steps. Any thread may ask.
class CollectiveProgress {
 public:
  virtual ~CollectiveProgress() = default;
  /// The collective that has begun and is not over.
  virtual std::optional<CollectivePlace> waits() const = 0;
};

/// One rank's end of a world. distributed/collectives makes them.
class CollectiveRanks {
 public:
  virtual ~CollectiveRanks() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual CollectiveLimits limits() const { return {}; }

  /// [rank] What each rank says here, of any length, through the host. Every rank makes this call
  /// as often, in the same order. Throws RunError if another rank is gone.
  virtual std::vector<std::string> exchange(const std::string& text) = 0;

  /// "rank 1 of 3 died", if that is known and this rank's device `waits` for others, which whoever
  /// asks then ends, and tells of. Any thread may call.
  virtual std::optional<std::string> lost_rank(bool waits) {
    static_cast<void>(waits);
    return std::nullopt;
  }

  /// Steps of these ranks, by whoever runs them, until it forgets them; any thread may call.
  void follow(const CollectiveProgress& steps);
  void forget(const CollectiveProgress& steps);
  /// Returns the collective of the first device, of those followed, that waits.
  std::optional<CollectivePlace> waits() const;

 private:
  mutable std::mutex mutex_;
  std::vector<const CollectiveProgress*> followed_;
};

}  // namespace metronome
