// Who looks whether ranks still exchange.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "executor/cuda/libraries/nccl_communicator.h"
#include "ops/rules/collective_ranks.h"

namespace metronome::executor::libraries {

/// A thread that looks ten times a second at the collective in which the device waits: whether
/// another rank is lost, NCCL has failed, or it takes longer than the ranks' limit. It then ends
/// what waits (ncclCommAbort), so that the host's waiting returns, and `check` throws:
///
///   "rank 1 of 2 died, while rank 0 of 2 was in step 41, collective 2 (all_reduce {mean} "g")"
///
/// If nobody asks within kLastWords, as even that ends nothing, it is printed and the process ends
/// with status 1.
class NcclWatchdog {
 public:
  /// All of them outlive it.
  NcclWatchdog(CollectiveRanks& ranks, NcclCommunicator& captured, NcclCommunicator& others);
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;

  /// Throws RunError with what was found.
  void check();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBetween{100}, kLastWords{5'000};

  void watch();
  std::string fault();

  CollectiveRanks& ranks_;
  NcclCommunicator &captured_, &others_;
  // Used by the thread alone:
  std::optional<CollectivePlace> place_;  // in which the device waits
  Clock::time_point since_;

  std::mutex mutex_;
  std::condition_variable change_;
  std::string failure_;  // empty: there is none
  bool taken_ = false;
  bool ends_ = false;
  std::thread aborting_;
  std::thread thread_;
};

}  // namespace metronome::executor::libraries
