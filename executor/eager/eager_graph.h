// A declared graph as `eager` walks over it.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "executor/eager/eager_memory.h"
#include "graph/ir/graph.h"
#include "graph/ir/structural.h"
#include "ops/rules/own_rules.h"

namespace metronome::executor::eager {

/// When a node can be computed: nodes made of gradients, and of the update, come later. Those of
/// the forward phase that read updated parameters come behind the updates of some objectives.
enum class ComputePhase : std::uint8_t { forward, gradients, update };
using Phases = std::initializer_list<ComputePhase>;

/// The graph, the phase of each node, and its storages and inputs in memory: no step changes these.
/// All parts of a step (`EagerStep`) read it.
class EagerGraph {
 public:
  /// `tensors` outlive it.
  EagerGraph(Mode mode, ir::Graph graph, EagerMemory& tensors, const OwnOps& ops);

  const ir::Graph& graph() const { return graph_; }
  std::int32_t size() const { return static_cast<std::int32_t>(phases_.size()); }
  const Node& node(std::int32_t index) const { return graph_.nodes()[index]; }
  /// True for a node that is computed once, or not at all.
  bool is_constant(std::int32_t node) const { return graph_.nodes()[node].inputs.empty(); }
  const OptimizerRule& optimizer(std::size_t objective) const {
    return *graph_.objectives()[objective].optimizer;
  }
  const OwnOps& ops() const { return ops_; }
  Mode mode() const { return mode_; }
  bool trains() const { return mode_ == Mode::train && !graph_.objectives().empty(); }

  /// True for the loss of an objective that may rest: it reads as last computed.
  bool is_kept_loss(const Readable& readable) const;
  /// The storage that keeps that loss; undefined for other objectives.
  at::Tensor kept_loss(std::size_t objective) const;
  /// True if a gradient of the objective, or a norm of some, is to be read in every step.
  bool reads_gradients(std::size_t objective) const;

  ComputePhase phase(std::int32_t node) const { return phases_[node]; }
  /// How many objectives have made their update before the node is computed.
  std::size_t updates_before(std::int32_t node) const { return updates_before_[node]; }
  /// The greatest of these: 0 where no node reads an updated parameter.
  std::size_t early_updates() const { return early_updates_; }
  /// Likewise before the loss of an objective and the decision whether it trains are there.
  std::size_t updates_before_loss(std::size_t objective) const;
  /// The objective whose loss alone needs the node, in steps that it may leave out; -1: every step
  /// computes it.
  std::int32_t only_for(std::int32_t node) const { return only_for_[node]; }
  /// All nodes: by the updates before them, those that every step computes first, then as they are
  /// declared.
  const std::vector<std::int32_t>& order() const { return order_; }
  bool is_in(Phases phases, ValueId id) const {
    return std::ranges::find(phases, phases_[id.node]) != phases.end();
  }

  EagerMemory& tensors() const { return tensors_; }
  at::Tensor storage(StorageId id) const { return tensors_.storage(storages_[id.index]); }
  /// A storage that passes have made, such as a moment; undefined where they made none.
  at::Tensor made_storage(const std::string& path) const;
  std::int64_t& counter(StorageId id) const;
  at::Tensor input(const Input& node) const { return tensors_.input(tensors_.memory().find(node)); }
  /// Brings what its inputs were fed to where it computes.
  void send_inputs() const { tensors_.send(inputs_); }

 private:
  void find_only_for();

  Mode mode_;
  ir::Graph graph_;
  EagerMemory& tensors_;
  OwnOps ops_;
  std::vector<std::size_t> storages_;        ///< [StorageId of the graph]: among those of `Memory`
  std::vector<std::size_t> inputs_;          ///< among those of `Memory`
  std::vector<ComputePhase> phases_;         ///< [node]
  std::vector<std::size_t> updates_before_;  ///< [node]
  std::vector<std::int32_t> only_for_;       ///< [node]
  std::size_t early_updates_ = 0;
  std::vector<std::int32_t> order_;
};

}  // namespace metronome::executor::eager
