// A residual tower that tells four quadrants apart, and the points that it learns from.
#pragma once

#include <cstdint>
#include <vector>

#include "metronome/metronome.h"

namespace example {

namespace mt = metronome;

constexpr std::int64_t kRows = 64, kWidth = 4, kClasses = 4;

struct Model {
  mt::Graph graph;
  mt::Value x;       ///< f32[kRows, kWidth]
  mt::Value target;  ///< i64[kRows], classes
  mt::Value accuracy;
};

Model make_model();

struct Batch {
  std::vector<float> x;
  std::vector<std::int64_t> target;
};

/// Fresh points in each step, the same ones in every run. A point's class is told by the signs of
/// x0 x1 and x2 x3, so no plane parts one class from the others.
Batch batch_of(std::int64_t step);

}  // namespace example
