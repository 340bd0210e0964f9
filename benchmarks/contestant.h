// One executable that walks through batches.
#pragma once

#include <cstddef>
#include <limits>

#include "benchmarks/batches.h"
#include "executor/metronome.h"

namespace metronome::benchmarks {

class Contestant {
 public:
  Contestant(Executable& step, const Batches& batches, Value loss)
      : step_(step), batches_(batches), loss_(loss) {}

  /// As users do: the loss is read after each step.
  void read(int steps) {
    for (int i = 0; i < steps; ++i) {
      take();
      last_ = step_.read_scalar(loss_);
    }
  }
  void unread(int steps) {
    for (int i = 0; i < steps; ++i) take();
    // On a GPU the last of them is still to come.
    last_ = step_.read_scalar(loss_);
  }
  /// Feeds each step, or leaves in place what was fed last.
  void feed(bool each) { feeds_ = each; }
  double last() const { return last_; }

 private:
  void take() {
    if (feeds_) {
      step_.run(batches_.of_step(next_++));
    } else {
      step_.run();
    }
  }

  bool feeds_ = true;
  Executable& step_;
  const Batches& batches_;
  Value loss_;
  std::size_t next_ = 0;
  double last_ = std::numeric_limits<double>::quiet_NaN();
};

/// The least number of steps in a round, however long each takes.
inline constexpr int kFewestSteps = 2;

/// As many steps, of so many milliseconds each, as fill a round long enough for a clock and a
/// scheduler not to matter, short enough for many rounds.
int steps_per_round(double ms);
/// Steps of a round by what a contestant's steps take now: it makes some.
int steps_per_round(Contestant& contestant);

}  // namespace metronome::benchmarks
