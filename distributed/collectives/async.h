// Calls of a rank that go on while it computes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/collectives/communicator.h"

namespace metronome::distributed {

/// Another communicator's calls, one after the other: those that are started on a thread of its
/// own, the others, once all started ones are through, on the caller's.
class AsyncCommunicator final : public Communicator {
 public:
  /// `threaded`: false where no core is free for a thread; a call that is started is then made at
  /// once.
  AsyncCommunicator(std::shared_ptr<Communicator> ranks, bool threaded);
  /// Waits for what was started.
  ~AsyncCommunicator() override;

  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  int local_rank() const override { return ranks_->local_rank(); }
  CollectiveLimits limits() const override { return ranks_->limits(); }
  std::optional<std::string> lost_rank(bool waits) override { return ranks_->lost_rank(waits); }
  void transfer(std::span<const OutgoingMessage> sent,
                std::span<const IncomingMessage> received) override {
    ranks_->transfer(sent, received);
  }
  void begin(const char* collective, std::size_t bytes) override;
  void end() override;
  void begin_step(std::int64_t step) override;
  std::vector<std::string> exchange(const std::string& text) override;

  void start(Call call) override;
  bool overlaps() const override { return thread_.joinable(); }
  void finish() override;
  void settle() noexcept override;
  Pace pace() const override { return pace_; }

 private:
  using Clock = std::chrono::steady_clock;

  void work();

  std::shared_ptr<Communicator> ranks_;
  // Used by the caller's thread alone:
  Clock::time_point began_;  // the call under way
  std::chrono::duration<double> held_up_{};
  Clock::time_point first_step_;
  Pace pace_;

  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<Call> started_;    // and not through; the first is under way
  std::int64_t through_ = 0;    // and not finished
  std::exception_ptr failure_;  // the first; no call is made after it
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace metronome::distributed
