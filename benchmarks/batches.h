// The batches that benchmarks and checks feed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "models/models.h"

namespace metronome::benchmarks {

/// The name that the graph gives an input.
std::string input_name(const models::Model& model, const Value& input);

/// Random numbers and tokens for all that a model is fed, as the model says, seeded, made once and
/// reused in order.
class Batches {
 public:
  explicit Batches(const models::Model& model, std::size_t count = 50, std::uint64_t seed = 1);

  /// Moves every feed to page-locked memory, from which a GPU copies by itself. Needs a GPU.
  void lock_pages();

  /// The feeds of step `step`, by name: they fit every executable of the model.
  std::span<const Feed> of_step(std::size_t step) const { return feeds_[step % feeds_.size()]; }

 private:
  std::vector<std::vector<Feed>> feeds_;
};

}  // namespace metronome::benchmarks
