// A launch, or a step, that may never come back.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

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

/// The number of seconds that METRONOME_LAUNCH_LIMIT names, if it names any. Throws RunError where
/// it is no number of seconds.
std::optional<std::chrono::milliseconds> launch_limit();

/// Warns and ends as `LaunchWatch` does, for a step that was launched and is waited for: whoever
/// waits calls `look` now and then. It has no thread, as each read would make one.
class StepWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `what` is asked where there is something to say: "graph "mlp", train: step 7".
  explicit StepWatch(std::function<std::string()> what,
                     std::chrono::milliseconds patience = std::chrono::seconds(5))
      : what_(std::move(what)), patience_(patience) {}

  /// Time counts from the first call.
  void look();

 private:
  std::function<std::string()> what_;
  std::chrono::milliseconds patience_;
  std::optional<Clock::time_point> begin_;
  bool ends_ = false;  ///< the process, behind `patience_`
  bool told_ = false;
};

}  // namespace metronome::executor::capture
