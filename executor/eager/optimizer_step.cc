#include "executor/eager/optimizer_step.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::executor::eager {

OptimizerStep::OptimizerStep(const EagerGraph& graph, BackwardPass& backward, std::size_t objective)
    : graph_(graph), backward_(backward), objective_(objective) {
  const std::vector<ParameterLeaf>& all = backward.leaves();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].objective == objective) leaves_.push_back(i);
  }
  const std::vector<Storage>& storages = graph.tensors().memory().storages;
  for (const Moment& moment : graph.optimizer(objective).moments()) {
    Tensors tensors;
    for (const std::size_t i : leaves_) {
      const ParameterLeaf& leaf = all[i];
      const Storage& parameter = graph.graph().storage(leaf.parameter);
      const std::string path = "optimizer/" + moment.name + "/" + parameter.path;
      const auto found = std::ranges::find(storages, path, &Storage::path);
      if (found == storages.end()) {
        // The loss does not reach this parameter: no moments, no gradient, no update.
        tensors.emplace_back();
        continue;
      }
      tensors.push_back(
          graph.tensors().storage(static_cast<std::size_t>(found - storages.begin())));
    }
    moments_.push_back(std::move(tensors));
  }
  for (const std::size_t i : leaves_) {
    const ParameterLeaf& leaf = all[i];
    const Storage& s = graph.graph().storage(leaf.parameter);
    if (leaf.is_reached) scales_.push_back({s.rate, s.decay});
  }
  if (std::ranges::all_of(scales_, [](const Scales& s) { return s == Scales{}; })) scales_.clear();
}

at::Tensor OptimizerStep::number(UpdateNumber number) const {
  Tensors gradients;
  for (const std::size_t i : leaves_) {
    const ParameterLeaf& leaf = backward_.leaves()[i];
    if (leaf.is_reached && leaf.gradient.defined()) gradients.push_back(leaf.gradient);
  }
  return at::full({},
                  reference_number(graph_.optimizer(objective_), number, gradients,
                                   graph_.counter(graph_.graph().counters().update)),
                  at::TensorOptions(at::kDouble));
}

void OptimizerStep::run() {
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
  reference_step(graph_.optimizer(objective_), parameters, std::move(gradients), moments,
                 graph_.counter(graph_.graph().counters().update), scales_);
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
