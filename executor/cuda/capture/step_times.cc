#include "executor/cuda/capture/step_times.h"

#include <algorithm>
#include <exception>
#include <functional>

namespace metronome::executor::capture {
namespace {

constexpr int kRounds = 3;

bool overlap(const program::ByteRange& a, const program::ByteRange& b) {
  const auto* at = static_cast<const std::byte*>(a.begin);
  const auto* bt = static_cast<const std::byte*>(b.begin);
  return std::less<>()(at, bt + b.bytes) && std::less<>()(bt, at + a.bytes);
}

/// Bytes that work both reads and writes, kept to be put back: an operand in whose place the value
/// is computed, a sum.
class ChangedBytes {
 public:
  ChangedBytes(CudaDriver& driver, CudaStream stream, const program::TouchedMemory& work)
      : driver_(driver), stream_(stream) {
    for (const program::ByteRange& write : work.writes) {
      const auto meets = [&](const program::ByteRange& read) { return overlap(read, write); };
      if (std::ranges::none_of(work.reads, meets)) continue;
      ranges_.push_back(write);
      before_.emplace_back(write.bytes);
      driver_.download(before_.back().data(), write.begin, write.bytes, stream_);
    }
  }
  bool any() const { return !ranges_.empty(); }
  void put_back() const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      driver_.upload(const_cast<void*>(ranges_[i].begin), before_[i].data(), ranges_[i].bytes,
                     stream_);
    }
    driver_.synchronize(stream_);
  }

 private:
  CudaDriver& driver_;
  CudaStream stream_;
  std::vector<program::ByteRange> ranges_;
  std::vector<std::vector<std::byte>> before_;  ///< [range]
};

}  // namespace

StepTimes::StepTimes(const Stopwatch& watch, program::DeviceState& state,
                     program::DeviceFaults& faults, std::span<const program::Task> tasks,
                     const program::Task& reads)
    : watch_(watch), state_(state), faults_(faults) {
  for (const program::Task& task : tasks) tasks_.push_back(&task);
  tasks_.back() = &reads;
  runs_.reserve(tasks_.size());
}

std::vector<KernelTime> StepTimes::measure() {
  const std::vector<std::byte> storages = state_.snapshot(), met = faults_.snapshot();
  const auto put_back = [&] {
    state_.restore(storages);
    faults_.restore(met);
  };
  std::vector<KernelTime> times;
  try {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const double us = microseconds(i);
      times.push_back(tasks_[i]->kernel);
      times.back().microseconds = us;
      times.back().by = runs_[i].by();
    }
  } catch (...) {
    try {
      put_back();
    } catch (const std::exception&) {  // the device is in error: what it said first counts
    }
    throw;
  }
  put_back();
  return times;
}

double StepTimes::microseconds(std::size_t task) {
  const std::vector<Command>& commands = tasks_[task]->commands;
  const ChangedBytes changed(watch_.driver(), watch_.stream(), tasks_[task]->touched);
  if (runs_.size() == task) runs_.emplace_back(watch_, commands);
  const double ms = runs_[task].milliseconds(kRounds);
  if (changed.any()) {
    changed.put_back();
    for (const Command& command : commands) watch_.driver().enqueue(command, watch_.stream());
  }
  return 1e3 * ms;
}

}  // namespace metronome::executor::capture
