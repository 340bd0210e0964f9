// One executable that walks through batches.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "benchmarks/batches.h"
#include "executor/metronome.h"

namespace metronome::benchmarks {

class Contestant {
 public:
  /// `value`: the loss of a step that trains, the answer of one that evaluates.
  Contestant(Executable& step, const Batches& batches, Value value, Mode mode = train)
      : step_(step), batches_(batches), value_(value), mode_(mode) {}

  /// As users do: the loss, or the answer's first number, is read after each step.
  void read(int steps) {
    for (int i = 0; i < steps; ++i) {
      take();
      read_last();
    }
  }
  void unread(int steps) {
    for (int i = 0; i < steps; ++i) take();
    // On a GPU the last of them is still to come.
    read_last();
  }
  /// Feeds each step, or leaves in place what was fed last.
  void feed(bool each) { feeds_ = each; }
  /// The same steps, each fed a batch of `batches`.
  Contestant fed_by(const Batches& batches) const { return {step_, batches, value_, mode_}; }
  double last() const { return last_; }

 private:
  void take() {
    const std::span<const Feed> feeds =
        feeds_ ? batches_.of_step(next_++) : std::span<const Feed>();
    if (mode_ == train) {
      step_.run(feeds);
    } else {
      step_.evaluate(feeds);
    }
  }
  void read_last() {
    last_ = mode_ == train ? step_.read_scalar(value_)
                           : *reinterpret_cast<const float*>(step_.read_tensor(value_).data);
  }

  bool feeds_ = true;
  Executable& step_;
  const Batches& batches_;
  Value value_;
  Mode mode_;
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
