// `eager`: the declared graph op by op through libtorch: oracle and baseline.
#pragma once

#include <memory>
#include <vector>

#include "executor/engine.h"
#include "executor/target.h"
#include "graph/graph.h"

namespace metronome {

struct EagerMode {
  Mode mode;
  Graph graph;  ///< as declared, after `for_mode` and nothing else
};

/// Runs the graph before `lower`: libtorch's own composites, its autograd, its fused optimizers.
/// The optimizer's moments are storages of `memory`. On a CUDA device storages, inputs and values
/// are tensors there; throws RunError where libtorch cannot use it.
std::unique_ptr<Engine> make_eager(std::vector<EagerMode> modes, const Memory& memory,
                                   Device device);

}  // namespace metronome
