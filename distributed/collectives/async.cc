#include "distributed/collectives/async.h"

#include <utility>

namespace metronome::distributed {

AsyncCommunicator::AsyncCommunicator(std::shared_ptr<Communicator> ranks, bool threaded)
    : ranks_(std::move(ranks)) {
  if (threaded) thread_ = std::thread([this] { work(); });
}

AsyncCommunicator::~AsyncCommunicator() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  change_.notify_all();
  thread_.join();
}

void AsyncCommunicator::begin(const char* collective, std::size_t bytes) {
  began_ = Clock::now();
  settle();
  ranks_->begin(collective, bytes);
}

void AsyncCommunicator::end() {
  ranks_->end();
  held_up_ += Clock::now() - began_;
}

void AsyncCommunicator::begin_step(std::int64_t step) {
  settle();
  {
    // Forgets the calls of a step that was broken off.
    const std::lock_guard lock(mutex_);
    through_ = 0;
  }
  const Clock::time_point now = Clock::now();
  if (pace_.steps++ == 0) first_step_ = now, held_up_ = {};
  pace_.seconds = std::chrono::duration<double>(now - first_step_).count();
  pace_.blocked_seconds = held_up_.count();
  ranks_->begin_step(step);
}

std::vector<std::string> AsyncCommunicator::exchange(const std::string& text) {
  settle();
  return ranks_->exchange(text);
}

void AsyncCommunicator::start(Call call) {
  if (!thread_.joinable()) {
    const Clock::time_point began = Clock::now();
    call(*ranks_);
    held_up_ += Clock::now() - began;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    started_.push_back(std::move(call));
  }
  change_.notify_all();
}

void AsyncCommunicator::finish() {
  if (!thread_.joinable()) return;
  const Clock::time_point began = Clock::now();
  std::unique_lock lock(mutex_);
  change_.wait(lock, [&] { return through_ > 0; });
  --through_;
  held_up_ += Clock::now() - began;
  if (failure_) std::rethrow_exception(failure_);
}

void AsyncCommunicator::settle() noexcept {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [&] { return started_.empty(); });
}

void AsyncCommunicator::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    change_.wait(lock, [&] { return ends_ || !started_.empty(); });
    if (started_.empty()) return;
    const Call& call = started_.front();  // others may be started behind it
    const bool fails = failure_ != nullptr;
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (!fails) call(*ranks_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    started_.pop_front();
    ++through_;
    change_.notify_all();
  }
}

}  // namespace metronome::distributed
