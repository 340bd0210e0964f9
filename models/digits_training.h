// Trains on the digits: fills batches in place, replays, counts right answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "executor/run/batches.h"
#include "models/digits.h"
#include "models/digits_data.h"

namespace metronome::models {

/// Right answers on the test digits.
struct Score {
  std::int64_t right = 0;
  std::int64_t rows = 0;

  double accuracy() const { return rows == 0 ? 0 : static_cast<double>(right) / rows; }
};

/// The model for each size of batch that an epoch has.
struct DigitsShapes {
  std::int64_t batch = 0;
  LastBatch last = LastBatch::keep;
  std::vector<DigitsModel> models;  ///< for full batches, then for a short last one

  /// What to compile together.
  std::vector<const Graph*> graphs() const;
};

/// Models for epochs over `examples` digits, each of which every epoch trains on once; but a single
/// digit left over is dropped, as batch norm needs two. The learning rate falls over so many
/// epochs. Throws RunError where a batch has more rows than there are digits.
DigitsShapes digits_shapes(std::int64_t examples, std::int64_t epochs, DigitsOptions options = {});

/// One executable's training run. Keeps references to the models and the data. What it feeds
/// depends on the seed and the executable's replay counter alone, so that a run resumed from a
/// checkpoint goes on exactly where it stopped.
class DigitsTraining {
 public:
  /// `step` needs the graphs of `shapes` and the modes train and evaluate.
  DigitsTraining(const DigitsShapes& shapes, const DigitsSplit& data, Executable& step,
                 std::uint64_t seed);

  /// Batches of an epoch.
  std::int64_t steps_per_epoch() const { return order_.batches_per_epoch(); }
  /// Throws RunError where the executable was resumed in the middle of an epoch.
  std::int64_t epochs_done() const;

  /// One epoch; `after_step` is given each step's loss.
  void epoch(const std::function<void(double loss)>& after_step);
  /// The forward plan over all test digits; rows that only fill the last batch do not count.
  Score test();

 private:
  /// The next step is one of the batch shape of `models[shape]`; `fill` writes there.
  void pick(std::size_t shape);
  void fill(std::int64_t row, const Digit& digit, int down, int right);

  const DigitsShapes& shapes_;
  const DigitsSplit& data_;
  Executable& step_;
  std::uint64_t seed_;
  BatchOrder order_;
  std::optional<std::size_t> picked_;
  float* pixels_ = nullptr;         ///< input memory, [batch, 64]
  std::int64_t* labels_ = nullptr;  ///< input memory, [batch]
};

}  // namespace metronome::models
