#include "executor/eager/optimizer_step.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "ops/reference/table.h"

namespace metronome::executor::eager {

OptimizerStep::OptimizerStep(const EagerGraph& graph, BackwardPass& backward, std::size_t objective)
    : graph_(graph), backward_(backward), objective_(objective) {
  const std::vector<ParameterLeaf>& all = backward.leaves();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].objective == objective) leaves_.push_back(i);
  }
  for (const Moment& moment : graph.optimizer(objective).moments()) {
    Tensors tensors;
    for (const std::size_t i : leaves_) {
      const Storage& parameter = graph.graph().storage(all[i].parameter);
      // Undefined where the loss does not reach the parameter: no gradient, no update.
      tensors.push_back(graph.made_storage(ir::path_of_moment(moment, parameter.path)));
    }
    moments_.push_back(std::move(tensors));
  }
  for (const Moment& state : graph.optimizer(objective).states()) {
    states_.push_back(graph.made_storage(ir::path_of_state(state.name, this->objective().name)));
  }
  for (const std::size_t i : leaves_) {
    const ParameterLeaf& leaf = all[i];
    const Storage& s = graph.graph().storage(leaf.parameter);
    if (leaf.is_reached) scales_.push_back({s.rate, s.decay});
  }
  if (this->objective().accumulate > 1) {
    for (const std::size_t i : leaves_) {
      gathered_.push_back(
          graph.made_storage(ir::path_of_gathered(graph.graph().storage(all[i].parameter).path)));
    }
    gathered_weight_ = graph.made_storage(ir::path_of_gathered_weight(this->objective().name));
  }
  if (std::ranges::all_of(scales_, [](const Scales& s) { return s == Scales{}; })) scales_.clear();
}

void OptimizerStep::gather(double weight, bool counts) {
  if (objective().accumulate == 1) return;
  const at::Tensor own = at::full({}, weight, at::TensorOptions(at::kDouble));
  const Tensors made = reference(*make_op(MeanWeight{}), {own, gathered_weight_}, graph_.ops());
  const OpPtr average = make_op(AverageUpdate{});
  const bool ends = this->ends();
  for (std::size_t k = 0; k < leaves_.size(); ++k) {
    ParameterLeaf& leaf = backward_.leaves()[leaves_[k]];
    if (!leaf.is_reached) continue;
    const at::Tensor gradient =
        leaf.gradient.defined() ? leaf.gradient : at::zeros_like(leaf.tensor.detach());
    leaf.gradient = reference(*average, {gathered_[k], gradient, made[0]}, graph_.ops())[0];
    if (!counts) continue;
    ends ? gathered_[k].zero_() : gathered_[k].copy_(leaf.gradient);
  }
  if (!counts) return;
  ends ? gathered_weight_.zero_() : gathered_weight_.copy_(made[1]);
}

bool OptimizerStep::ends() const {
  if (objective().accumulate == 1) return true;
  return (graph_.counter(objective().gathered) + 1) % objective().accumulate == 0;
}

at::Tensor OptimizerStep::number(UpdateNumber number) const {
  Tensors gradients;
  for (const std::size_t i : leaves_) {
    const ParameterLeaf& leaf = backward_.leaves()[i];
    if (!leaf.is_reached) continue;
    // In this step all its uses may have been skipped.
    gradients.push_back(leaf.gradient.defined() ? leaf.gradient
                                                : at::zeros_like(leaf.tensor.detach()));
  }
  return at::full({}, reference_number(graph_.optimizer(objective_), number, gradients, state()),
                  at::TensorOptions(at::kDouble));
}

void OptimizerStep::run(const at::Tensor& loss) {
  Tensors parameters, gradients;
  std::vector<Tensors> moments(moments_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    ParameterLeaf& leaf = backward_.leaves()[leaves_[i]];
    if (!leaf.is_reached) {  // no update
      check_unreached(leaf);
      continue;
    }
    const at::Tensor gradient = std::exchange(leaf.gradient, at::Tensor());
    parameters.push_back(graph_.storage(leaf.parameter).detach());
    // In this step all its uses may have been skipped.
    gradients.push_back(gradient.defined() ? gradient : at::zeros_like(leaf.tensor.detach()));
    for (std::size_t k = 0; k < moments_.size(); ++k) moments[k].push_back(moments_[k][i]);
  }
  const UpdateState before = state();
  reference_step(graph_.optimizer(objective_), parameters, std::move(gradients), moments, before,
                 scales_);
  if (states_.empty()) return;
  const double of_step = graph_.optimizer(objective_).watches_loss() ? loss.item<double>() : 0;
  const std::vector<double> next = reference_states(graph_.optimizer(objective_), before, of_step);
  for (std::size_t k = 0; k < next.size(); ++k) states_[k].fill_(next[k]);
}

UpdateState OptimizerStep::state() const {
  UpdateState state{graph_.counter(counter())};
  for (const at::Tensor& kept : states_) state.states.push_back(kept.item<double>());
  return state;
}

StorageId OptimizerStep::counter() const { return graph_.graph().objectives()[objective_].counter; }

bool OptimizerStep::is_finite() const {
  return std::isfinite(number(UpdateNumber::gradient_norm).item<double>());
}

void OptimizerStep::skip() {
  for (const std::size_t i : leaves_) backward_.leaves()[i].gradient = at::Tensor();
}

/// Checks that autograd too finds no gradient for a parameter that the plan does not update.
void OptimizerStep::check_unreached(ParameterLeaf& leaf) const {
  const at::Tensor gradient = std::exchange(leaf.gradient, at::Tensor());
  if (gradient.defined() && gradient.count_nonzero().item<std::int64_t>() > 0) {
    throw InternalError(fmt::format("the plan does not update \"{}\", but the loss depends on it",
                                    graph_.graph().storage(leaf.parameter).path));
  }
}

}  // namespace metronome::executor::eager
