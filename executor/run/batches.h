// The examples that a step sees, as a function of seed and step, so that a resumed run needs
// nothing but the replay counter to go on with the right batch.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace metronome {

/// The treatment of the examples left over at the end of an epoch.
enum class LastBatch : std::uint8_t {
  drop,  ///< no step sees them in this epoch
  fill,  ///< as many from the beginning of the same epoch's order join them
  keep,  ///< they are a short batch: a batch shape of its own, see `compile` of several graphs
};

/// Batches of shuffled examples, another order in every epoch.
///
///   const auto [epoch, position] = order.at(step.replays());
///   const auto indices = order.epoch(epoch);
///   // the next batch: order.size(position) of them from indices[position * batch] on
class BatchOrder {
 public:
  /// Throws RunError unless both numbers are positive, and there is a batch: with `drop` at least
  /// `batch` examples.
  BatchOrder(std::int64_t examples, std::int64_t batch, std::uint64_t seed, LastBatch last);

  /// Indices below `examples`, batch after batch. A Fisher-Yates shuffle with numbers of Philox
  /// over (seed, epoch): every order is equally likely, and it is the same on every machine. Throws
  /// RunError if `epoch` is negative.
  std::vector<std::int64_t> epoch(std::int64_t epoch) const;
  /// Batches of one epoch, with a short or filled last one.
  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }
  /// Examples of the batch at a position of an epoch: `batch`, but for a short last one.
  std::int64_t size(std::int64_t position) const;
  /// The batch of the step that `replay` steps precede: {epoch, position in the epoch}, both from
  /// 0. Throws RunError if `replay` is negative.
  std::pair<std::int64_t, std::int64_t> at(std::int64_t replay) const;

 private:
  std::int64_t examples_;
  std::int64_t batch_;
  std::uint64_t seed_;
  std::int64_t shown_;  ///< indices of an epoch
  std::int64_t batches_per_epoch_;
};

}  // namespace metronome
