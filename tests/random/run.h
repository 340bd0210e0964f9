// Runs of random programs: what is fed, what is left.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/graph.h"
#include "tests/random/builder.h"

namespace metronome::random_programs {

/// Numbers for every input of the graph: the same for the same seed and step. Later steps feed
/// numbers of other sizes and signs, so that conditions change.
std::vector<Feed> feeds(const ir::Graph& graph, std::uint32_t seed, int step);

CompileOptions options_for(const Program& program);

/// A tensor that a step left, by name: a readable value or a storage. `kind` tells what it is
/// measured against.
struct Left {
  std::string name, kind;
  at::Tensor tensor;
};
std::vector<Left> left_by(const Executable& executable, const Graph& graph);

/// The first name whose bits differ, with the first differing numbers; "" where none does.
std::string difference_of_bits(const std::vector<Left>& a, const std::vector<Left>& b);

/// The largest difference, relative to the largest magnitude of its kind (or 1e-3 where all of them
/// are smaller), and where.
struct Distance {
  double relative = 0;
  std::string detail;
};
Distance distance_of(const std::vector<Left>& a, const std::vector<Left>& b);

}  // namespace metronome::random_programs
