// A residual tower that reads handwritten digits.
#pragma once

#include <cstdint>

#include "executor/metronome.h"

namespace metronome::models {

struct DigitsOptions {
  std::int64_t batch = 64;
  double lr = 2e-3;          ///< at the first step
  std::int64_t steps = 920;  ///< over which the learning rate falls to zero, along half a cosine
};

struct DigitsModel {
  Graph graph;
  Value pixels;  ///< f32 [batch, 64]
  Value labels;  ///< i64 [batch]
  Value logits;  ///< f32 [batch, 10], read after a step
};

DigitsModel digits(const DigitsOptions& options = {});

}  // namespace metronome::models
