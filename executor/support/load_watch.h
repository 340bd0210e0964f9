// The load that other programs make while this one times something.
#pragma once

#include "executor/support/load.h"

namespace metronome::executor {

/// The share of the cores above which what was timed meanwhile says little. A program with as many
/// threads as cores then waits for one of them most of the time.
constexpr double kMuchLoad = 0.2;
/// The share that is too much where runs of one thing differ, as bursts make them: a burst of some
/// milliseconds takes little of the 0.1 s that can be measured. Runs may also differ without other
/// programs.
constexpr double kSomeLoad = 0.05;

/// Made before something is timed, and asked after. For any thread.
class LoadWatch {
 public:
  LoadWatch();
  /// The share of the cores that other programs took meanwhile, from 0 to 1. May wait for 0.1 s
  /// (load.h).
  double share() const;

 private:
  LoadMeter::Sample begin_;
};

/// The meter that all watches ask; tests put another in its place.
LoadMeter& load_meter();

}  // namespace metronome::executor
