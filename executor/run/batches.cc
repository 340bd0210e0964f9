#include "executor/run/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/emit/hash.h"
#include "graph/ir/error.h"
#include "ops/rules/random.h"

namespace metronome {
namespace {

// Keeps this stream apart from those of random ops and initial values, whose keys are hashes of
// paths; no path has a space.
constexpr std::uint64_t kKey = hash_of("order of batches");

// A number from 0 to bound - 1. Scaling 64 random bits is biased by less than bound / 2^64.
std::int64_t draw(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index,
                  std::int64_t bound) {
  const auto words = philox(seed, epoch, kKey, index);
  const std::uint64_t bits = std::uint64_t{words[1]} << 32 | words[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(Wide{bits} * static_cast<std::uint64_t>(bound) >> 64);
}

}  // namespace

BatchOrder::BatchOrder(std::int64_t examples, std::int64_t batch, std::uint64_t seed,
                       LastBatch last)
    : examples_(examples), batch_(batch), seed_(seed) {
  if (examples < 1) throw RunError(fmt::format("{} examples make no batch", examples));
  if (batch < 1) throw RunError(fmt::format("a batch of {} examples: at least 1 is needed", batch));
  batches_per_epoch_ = examples / batch + (last != LastBatch::drop && examples % batch > 0);
  if (batches_per_epoch_ == 0) {
    throw RunError(fmt::format(
        "{} examples make no batch of {} where the last, short one is dropped", examples, batch));
  }
  shown_ = last == LastBatch::keep ? examples : batches_per_epoch_ * batch;
}

std::int64_t BatchOrder::size(std::int64_t position) const {
  return std::min(batch_, shown_ - position * batch_);
}

std::vector<std::int64_t> BatchOrder::epoch(std::int64_t epoch) const {
  if (epoch < 0) throw RunError(fmt::format("epoch {}: epochs count from 0", epoch));
  std::vector<std::int64_t> order(static_cast<std::size_t>(examples_));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t last = examples_ - 1; last > 0; --last) {
    const std::int64_t chosen =
        draw(seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(last), last + 1);
    std::swap(order[static_cast<std::size_t>(last)], order[static_cast<std::size_t>(chosen)]);
  }
  // A batch larger than all examples takes them several times over.
  order.resize(static_cast<std::size_t>(shown_));
  for (std::size_t i = static_cast<std::size_t>(examples_); i < order.size(); ++i) {
    order[i] = order[i - static_cast<std::size_t>(examples_)];
  }
  return order;
}

std::pair<std::int64_t, std::int64_t> BatchOrder::at(std::int64_t replay) const {
  if (replay < 0) throw RunError(fmt::format("replay {}: steps count from 0", replay));
  return {replay / batches_per_epoch_, replay % batches_per_epoch_};
}

}  // namespace metronome
