// How a training gets on: one line that changes on a terminal, else a line an epoch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace metronome::commands {

class Progress {
 public:
  Progress(std::int64_t epochs_done, std::int64_t epochs, std::int64_t steps_per_epoch);

  void after_step(double loss);
  /// `score` on what is held out: "accuracy  99.2 %".
  void after_epoch(std::string score);
  /// Leaves the line as it stands.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void show(bool line_end);

  bool terminal_;
  std::int64_t epoch_;
  std::int64_t epochs_;
  std::int64_t steps_per_epoch_;
  std::int64_t step_ = 0;   ///< of the epoch
  std::int64_t taken_ = 0;  ///< in all
  double losses_ = 0;       ///< sum over the epoch's steps
  double loss_ = 0;         ///< mean of the epoch so far
  std::string score_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = {};
};

}  // namespace metronome::commands
