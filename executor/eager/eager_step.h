// A step through libtorch, for one mode of a declared graph. `EagerStep` computes its nodes in
// three phases, since some nodes need gradients, and some what the update leaves:
//
//   forward     nodes in declared order; those under a false guard make undefined tensors
//   backward    libtorch's, from each loss; then means over ranks (BackwardPass)
//               nodes that read what objective k updates wait for its optimizer, which then runs
//               here: forward 0, backward 0, optimizer 0, forward 1, ...
//   gradients   nodes made of gradients and of numbers of the update
//               - - - from here on storages change, so a step that fails is broken - - -
//   assign      the assigned values of the phases before
//   optimizer   its step, by libtorch's fused call (OptimizerStep)
//   update      nodes that read parameters after the update, then their assignments
//
// A storage's old value that the update phase reads is cloned before storages change; so is a
// readable that shows memory which outlives the step (NodeValues).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor/eager/backward_pass.h"
#include "executor/eager/eager.h"
#include "executor/eager/eager_graph.h"
#include "executor/eager/node_values.h"
#include "executor/eager/optimizer_step.h"
#include "executor/eager/reference_calls.h"

namespace metronome::executor::eager {

/// The parts of a step, and its walks over the graph. The engine has one for each plan.
class EagerStep {
 public:
  /// `tensors` outlive it.
  EagerStep(EagerPlan declared, EagerMemory& tensors, const OwnOps& ops,
            const EagerOptions& options);
  EagerStep(const EagerStep&) = delete;
  EagerStep& operator=(const EagerStep&) = delete;

  /// Throws BrokenStep where libtorch fails, and RunError for an index out of range, which is met
  /// before anything is changed.
  void run();

  const at::Tensor& readable(std::size_t index) const { return values_.readable(index); }
  const std::optional<std::string>& fault() const { return calls_.fault(); }

 private:
  /// `changed`: it has begun to change storages.
  void run(bool& changed);
  /// Computes what waits for so many objectives' updates, and for no later one.
  void forward(std::size_t updates);
  /// Numbers of an objective's update, before it.
  void tell_numbers(std::size_t objective);
  /// Computes what has to wait for this phase.
  void follow(ComputePhase phase);
  void assign(Phases phases);
  bool skips(const Node& node);
  /// Whether the objective makes an update in this step, as far as the forward pass decides; asked
  /// once its decision is computed.
  bool trains(std::size_t objective);
  /// Whether it computes its loss and gradients: it trains, or they are read in every step.
  bool runs(std::size_t objective);
  /// Before its update: keeps its loss, and gathers its gradients if it accumulates some.
  void gather(std::size_t objective);
  void update(std::size_t objective);
  void count();
  /// Keeps the loss of an objective that may rest, and lets it be read.
  void keep_loss(std::size_t objective);
  /// Whether a node of the update phase is an average that does not move in this step.
  bool rests(const Node& node);
  /// By the objective that trains the parameter, before this step.
  std::int64_t updates_of(StorageId parameter) const;

  /// An input that each step lays out anew.
  struct Image {
    std::int32_t node;
    at::Tensor fed;
  };

  EagerGraph graph_;
  NodeValues values_;
  ReferenceCalls calls_;
  BackwardPass backward_;
  std::vector<OptimizerStep> optimizers_;  ///< [objective]
  std::vector<Image> images_;
  Tensors kept_losses_;                      ///< [objective] undefined where each step has it
  std::vector<std::optional<bool>> trains_;  ///< [objective] of this step
  std::vector<bool> ends_;                   ///< [objective] an update comes behind this step
  std::vector<bool> updated_;                ///< [objective] of this step
  std::vector<std::int64_t> updates_;  ///< [objective] before this step; last: the counter `update`
  std::int32_t running_ = -1;          ///< the node; below zero: no walk is under way
};

}  // namespace metronome::executor::eager
