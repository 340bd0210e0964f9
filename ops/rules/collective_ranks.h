// The ranks of a collective, as the libraries of devices know them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace metronome {

/// How long ranks wait for each other.
struct CollectiveLimits {
  std::chrono::milliseconds connect{30'000};      ///< until all are connected
  std::chrono::milliseconds collective{600'000};  ///< in one call, to which others may come late
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
};

}  // namespace metronome
