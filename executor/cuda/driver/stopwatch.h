// How long commands take on a device, however short they are.
#pragma once

#include <optional>
#include <span>

#include "executor/cuda/driver/driver.h"
#include "executor/support/timed_by.h"

namespace metronome {

/// Two events and the stream between them, for any number of timings.
class Stopwatch {
 public:
  Stopwatch(CudaDriver& driver, CudaStream stream)
      : driver_(&driver),
        stream_(stream),
        begin_(driver.make_timed_event()),
        end_(driver.make_timed_event()) {}

  CudaDriver& driver() const { return *driver_; }
  CudaStream stream() const { return stream_; }

  /// Milliseconds of what `work` enqueues on the stream. Waits for it.
  template <class Work>
  double milliseconds(Work work) const {
    driver_->record(begin_, stream_);
    work();
    driver_->record(end_, stream_);
    driver_->synchronize(end_);
    return driver_->milliseconds(begin_, end_);
  }

 private:
  CudaDriver* driver_;
  CudaStream stream_;
  CudaEvent begin_, end_;
};

/// Commands in a row, made ready to be timed when nothing else runs: as a graph of so many copies
/// of them that a launch, some 4 us of the host's, is lost in it.
///
/// They run hundreds of times: the caller puts back what they change of what they read. They are
/// warm: what they touch is in the caches, as far as it fits.
class RepeatedCommands {
 public:
  /// Prepares the commands, which outlive it, and runs them some times. Commands that cannot be
  /// captured are timed by launches; a strict driver throws instead.
  RepeatedCommands(const Stopwatch& watch, std::span<const Command> commands);
  ~RepeatedCommands() { release(); }
  RepeatedCommands(RepeatedCommands&& other) noexcept;
  RepeatedCommands(const RepeatedCommands&) = delete;

  TimingMethod by() const {
    return graph_ || commands_.empty() ? TimingMethod::copies : TimingMethod::launches;
  }
  /// Times by launches from here on, so that those beside it are timed alike.
  void use_launches() { release(); }

  /// Returns the time of one run of the commands: the mean of one round, or the median of several
  /// rounds.
  double milliseconds() const;
  double milliseconds(int rounds) const;

 private:
  void enqueue(int times) const;
  std::optional<CudaGraphExec> capture() const;
  void release() noexcept;

  Stopwatch watch_;
  std::span<const Command> commands_;
  int nodes_ = 0;  ///< of one run
  int copies_ = 1;
  std::optional<CudaGraphExec> graph_;
};

}  // namespace metronome
