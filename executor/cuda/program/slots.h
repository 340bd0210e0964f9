// The slot of feeds and reads that a step uses, of R copies, and the time at which the host may
// touch it.
//
//   step       0   1   2   3   4 ...        R = 2: while step 3 runs, the host fills the feeds of
//   slot       0   1   0   1   0 ...        step 4 once step 2 is over, and may read 2 and 3
#pragma once

#include <cstdint>
#include <functional>

namespace metronome::executor::program {

/// The host's side of R slots that steps use in turn: step n uses slot n % R. Steps count from 0,
/// run in order and end in order. For one thread at a time.
class Slots {
 public:
  /// Blocks until the device is through with a step, which is one of the last R that were launched.
  using Wait = std::function<void(std::int64_t step)>;

  /// `count` is R, 1 or more.
  Slots(int count, Wait wait);

  int count() const { return count_; }
  int slot_of(std::int64_t step) const { return static_cast<int>(step % count_); }
  /// The number of the step that is launched next: how many were launched.
  std::int64_t next() const { return next_; }

  /// Gives the slot of step next(), free to be filled: waits for step next() - R, and for nothing
  /// where fewer than R steps were launched. Until `count_launch` it may be called again.
  int acquire();
  /// Step next() is in the device's hands, and its event is recorded.
  void count_launch() { ++next_; }

  /// Gives the slot of a step when it can be read: waits for this step only. Throws RunError where
  /// the step was not run, or where R steps have been run since.
  int readable(std::int64_t step);
  /// The last step. Throws RunError where none was run.
  int readable() { return readable(next_ - 1); }

  /// Waits for every step that was launched.
  void finish();

 private:
  void wait_for(std::int64_t step);

  int count_;
  Wait wait_;
  std::int64_t next_ = 0;
  std::int64_t over_ = 0;  // steps below it are known to be over
};

}  // namespace metronome::executor::program
