#include "executor/cuda/libraries/nccl_watchdog.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::executor::libraries {

NcclWatchdog::NcclWatchdog(CollectiveRanks& ranks, NcclCommunicator& captured,
                           NcclCommunicator& others)
    : ranks_(ranks), captured_(captured), others_(others), since_(Clock::now()) {
  thread_ = std::thread([this] { watch(); });
}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  change_.notify_all();
  thread_.join();
  if (aborting_.joinable()) aborting_.join();
}

void NcclWatchdog::check() {
  const std::scoped_lock lock(mutex_);
  if (failure_.empty()) return;
  taken_ = true;
  change_.notify_all();
  throw LostRank(failure_);
}

void NcclWatchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!change_.wait_for(lock, kBetween, [this] { return ends_; })) {
    lock.unlock();
    const std::string found = fault();
    lock.lock();
    if (found.empty()) continue;
    failure_ = found;
    // The second of them returns once the host has destroyed its graphs.
    aborting_ = std::thread([this, found] {
      others_.abort(found);
      captured_.abort(found);
    });
    if (change_.wait_for(lock, kLastWords, [this] { return ends_ || taken_; })) return;
    std::fflush(stdout);
    fmt::print(stderr, "metronome: {}\n", failure_);
    std::fflush(stderr);
    std::_Exit(1);
  }
}

std::string NcclWatchdog::fault() {
  const Clock::time_point now = Clock::now();
  if (std::optional<CollectivePlace> place = ranks_.waits(); place != place_) {
    place_ = std::move(place);
    since_ = now;
  }
  const bool waits = place_ && now > since_;
  std::optional<std::string> why = ranks_.lost_rank(waits);
  if (!waits) return "";
  for (NcclCommunicator* communicator : {&captured_, &others_}) {
    if (!why) why = communicator->error();
  }
  const std::chrono::milliseconds limit = ranks_.limits().collective;
  if (!why && now - since_ >= limit) {
    why = fmt::format("other ranks did not come within {} s",
                      std::chrono::duration<double>(limit).count());
  }
  if (!why) return "";
  return fmt::format("{}, while rank {} of {} was in step {}, collective {} ({})", *why,
                     ranks_.rank(), ranks_.size(), place_->step, place_->number + 1, place_->name);
}

}  // namespace metronome::executor::libraries
