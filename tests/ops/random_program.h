// Graphs of random programs (tests/random) for tests of passes.
#pragma once

#include <cstdint>
#include <utility>

#include "tests/random/builder.h"

namespace metronome {

/// A small training graph in f64; one seed always gives one graph.
inline Graph random_graph(std::uint32_t seed, random_programs::Language language) {
  const random_programs::Program program = random_programs::generate(seed, language);
  random_programs::Builder builder(program);
  builder.build();
  return std::move(builder.graph());
}

}  // namespace metronome
