// Trains on the digits: fills batches in place, replays, counts right answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "executor/batches.h"
#include "models/digits.h"
#include "models/digits_data.h"

namespace metronome::models {

/// Right answers on the test digits.
struct Score {
  std::int64_t right = 0;
  std::int64_t rows = 0;

  double accuracy() const { return rows == 0 ? 0 : static_cast<double>(right) / rows; }
};

/// One executable's training run. Keeps references to the model and the data. What it feeds depends
/// on the seed and the executable's replay counter alone, so that a run resumed from a checkpoint
/// goes on exactly where it stopped.
class DigitsTraining {
 public:
  /// `step` needs the modes train and evaluate. Throws RunError where a batch has more rows than
  /// there are digits to train on.
  DigitsTraining(const DigitsModel& model, const DigitsSplit& data, Executable& step,
                 std::uint64_t seed);

  /// Batches of an epoch; a last short one is dropped.
  std::int64_t steps_per_epoch() const { return order_.batches_per_epoch(); }
  /// Throws RunError where the executable was resumed in the middle of an epoch.
  std::int64_t epochs_done() const;

  /// One epoch; `after_step` is given each step's loss.
  void epoch(const std::function<void(double loss)>& after_step);
  /// The forward plan over all test digits; rows that only fill the last batch do not count.
  Score test();

 private:
  void fill(std::int64_t row, const Digit& digit, int down, int right);

  const DigitsModel& model_;
  const DigitsSplit& data_;
  Executable& step_;
  std::uint64_t seed_;
  std::int64_t batch_;
  BatchOrder order_;
  float* pixels_;         ///< input memory, [batch, 64]
  std::int64_t* labels_;  ///< input memory, [batch]
};

}  // namespace metronome::models
