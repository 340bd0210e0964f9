// The update of `eager`: libtorch's fused optimizers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "executor/eager/backward_pass.h"
#include "executor/eager/eager_graph.h"
#include "ops/reference/optimizers.h"
#include "ops/rules/rules.h"

namespace metronome::executor::eager {

/// An objective's optimizer: its moments, and its step over the parameters that the loss reaches. A
/// step runs it behind the backward pass, whose gradients it takes.
class OptimizerStep {
 public:
  OptimizerStep(const EagerGraph& graph, BackwardPass& backward, std::size_t objective);

  /// Puts means with earlier replays' gradients in the place of the gradients, if the objective
  /// accumulates some, and keeps them if `counts`. `weight` is this replay's.
  void gather(double weight, bool counts);
  /// Whether an update comes behind this replay, which counts; asked before it is counted.
  bool ends() const;
  /// A number that the update takes or makes, before it runs.
  at::Tensor number(UpdateNumber number) const;
  /// `loss`: of this replay.
  void run(const at::Tensor& loss);
  /// Whether the norm of the gradients is.
  bool is_finite() const;
  /// Leaves out the update.
  void skip();

 private:
  StorageId counter() const;
  UpdateState state() const;
  const ir::MinimizedLoss& objective() const { return graph_.graph().objectives()[objective_]; }
  void check_unreached(ParameterLeaf& leaf) const;

  const EagerGraph& graph_;
  BackwardPass& backward_;
  std::size_t objective_;
  std::vector<std::size_t> leaves_;  ///< those of the objective, among the backward pass's
  std::vector<Tensors> moments_;     ///< [moment][leaf]; undefined of leaves that are not reached
  Tensors states_;                   ///< f64[] each, in the order of `OptimizerRule::states`
  std::vector<Scales> scales_;       ///< [reached leaf]; empty where all are 1
  Tensors gathered_;                 ///< [leaf] means; undefined where nothing is gathered
  at::Tensor gathered_weight_;
};

}  // namespace metronome::executor::eager
