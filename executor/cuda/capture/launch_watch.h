// A launch that may never come back.
#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace metronome::executor::capture {

/// Lives as long as a launch that should take no time is under way. Warns once, by the log, if it
/// takes longer than `patience`. If METRONOME_LAUNCH_LIMIT names a number of seconds, it ends the
/// process after them, with a line that says so: a launch that hangs cannot be undone, and whatever
/// waits for the device, destructors too, would wait with it. That is for programs that nobody
/// watches: under a debugger a launch takes as long as its user does.
class LaunchWatch {
 public:
  /// `what` is launched: "graph "mlp", train: one graph, 2 streams". Throws RunError where the
  /// variable is no number of seconds.
  explicit LaunchWatch(std::string what,
                       std::chrono::milliseconds patience = std::chrono::seconds(5));

 private:
  std::jthread thread_;
};

}  // namespace metronome::executor::capture
