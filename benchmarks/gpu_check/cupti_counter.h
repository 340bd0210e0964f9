// Counts the CUDA calls of this process, by CUPTI's callbacks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace metronome::gpu_check {

/// Calls by name, as "cudaGraphLaunch" (the runtime's) or "cuGraphLaunch" (the driver's, which
/// those of the runtime make in turn).
using Calls = std::map<std::string, std::int64_t>;

/// One counter at a time in a process. CUPTI is loaded when it is made.
class CuptiCounter {
 public:
  /// Throws RunError where CUPTI cannot be loaded, or refuses.
  CuptiCounter();
  ~CuptiCounter();
  CuptiCounter(const CuptiCounter&) = delete;
  CuptiCounter& operator=(const CuptiCounter&) = delete;

  /// Returns the calls that `body` makes, on all threads.
  template <class Body>
  Calls count(Body body) {
    begin();
    body();
    return end();
  }

 private:
  void begin();
  Calls end();

  struct Cupti;
  std::unique_ptr<Cupti> cupti_;
};

/// Calls that take or give back memory of the device or page-locked memory of the host.
std::int64_t allocations(const Calls& calls);
/// Calls that wait for the device, but for one event.
std::int64_t synchronizations(const Calls& calls);
/// Calls that wait for one event.
std::int64_t event_waits(const Calls& calls);

}  // namespace metronome::gpu_check
