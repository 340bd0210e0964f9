// The backward pass of `eager`: libtorch's autograd, and the means of gradients over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "executor/eager/eager_graph.h"
#include "executor/eager/node_values.h"

namespace metronome::executor::eager {

/// A parameter as autograd has it: a leaf over its storage's bytes, one for each plan.
struct ParameterLeaf {
  StorageId parameter;
  std::size_t objective = 0;  ///< that trains it
  at::Tensor tensor;
  bool is_reached = false;   ///< the loss depends on it in some step
  at::Tensor gradient = {};  ///< from the pass to the update; undefined if nothing reached it
};

/// The leaves of autograd, and their gradients until the update takes them. The forward walk tells
/// it of each node, then a step runs it; a plan that does not train has no leaves.
class BackwardPass {
 public:
  /// `updated`: the parameters that the loss depends on. `averages` makes means over ranks, if
  /// there are any.
  BackwardPass(const EagerGraph& graph, NodeValues& values, const std::set<StorageId>& updated,
               OpPtr averages);

  /// Sees to it that a node that is to show a gradient will find it, before the pass runs.
  void retain_gradient_for(const Node& node);
  /// Lets a value whose gradient is to be read gather it also where no parameter comes before it,
  /// as before an input.
  void watch(std::int32_t node);
  /// From the loss of each objective that waits for so many objectives' updates to what it trains;
  /// then means over ranks.
  /// Leaves out objectives that `runs` says do not run.
  void run(std::size_t updates, const std::function<bool(std::size_t objective)>& runs);
  /// The gradient that a node `GradientOf` is to show, as a tensor of its own; zeros if the loss
  /// did not reach it.
  const at::Tensor& gradient_at(std::int32_t node) const { return asked_.at(node); }
  /// Returns what is wrong with a gradient, if one is not finite. Gradients that autograd computes
  /// have no node: a fault names their parameter.
  std::optional<std::string> find_fault() const;
  void drop_gradients();

  std::vector<ParameterLeaf>& leaves() { return leaves_; }
  const std::vector<ParameterLeaf>& leaves() const { return leaves_; }

 private:
  void differentiate(std::size_t objective, bool retain);
  void average(std::size_t objective);
  void average_loss(ValueId loss);
  static void drop_gradient(const at::Tensor& value);
  /// f(node, the value whose gradient it shows) for each that asks the objective.
  template <class F>
  void for_asked(std::size_t objective, const F& f) const;
  bool is_leaf(const at::Tensor& tensor) const;

  const EagerGraph& graph_;
  NodeValues& values_;
  OpPtr averages_;
  std::vector<ParameterLeaf> leaves_;
  std::vector<bool> wanted_;  ///< [node]: its gradient is read; empty where no gradient flows
  std::map<std::int32_t, at::Tensor> asked_;  ///< by the node that shows it
};

}  // namespace metronome::executor::eager
