// `eager`: the declared graph op by op through libtorch: oracle and baseline.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/observer.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"
#include "ops/rules/own_rules.h"

namespace metronome::executor::eager {

/// The counterpart of a plan in `eager`.
struct EagerPlan {
  Mode mode;
  /// As declared, after `for_mode`; without the composites that have no reference, and nothing
  /// else.
  ir::Graph graph;
  /// Parameters that the plan updates: guards that exclude each other may keep a parameter from the
  /// loss where the declared graph alone does not tell.
  std::set<StorageId> updated;
  OpPtr averages = {};  ///< `Settings::averages`, whole, or null
};

/// How a step runs: CompileOptions of the same names.
struct EagerOptions {
  bool watch = false;
  bool channels_last = false;               ///< how inputs of four dimensions are laid out
  std::shared_ptr<Observer> observer = {};  ///< of the declared graph's nodes, after each
  int threads = 1;                          ///< of libtorch, while a step runs on a CPU
};

/// Runs composites whole: libtorch's own, its autograd, its fused optimizers. `ops`: those of one's
/// own, with their references.
/// The optimizer's moments are storages of `memory`. On a CUDA device storages, inputs and values
/// are tensors there; throws RunError where libtorch cannot use it.
///
/// An index out of range, for which libtorch throws on the CPU, is a RunError of the step with the
/// node, the user's line and the index; the step changes no storage. With `watch` the declared
/// graph's values are looked at, then the parameters' gradients.
std::unique_ptr<Engine> make_eager(std::vector<EagerPlan> plans, const Memory& memory,
                                   const OwnOps& ops, Device device, const EagerOptions& options);

}  // namespace metronome::executor::eager
