#include "executor/eager/backward_pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/eager/eager_faults.h"
#include "graph/ir/structural.h"
#include "ops/reference/table.h"

namespace metronome::executor::eager {

BackwardPass::BackwardPass(const EagerGraph& graph, NodeValues& values,
                           const std::set<StorageId>& updated, OpPtr averages)
    : graph_(graph), values_(values), averages_(std::move(averages)) {
  if (!graph.trains()) return;
  wanted_.resize(graph.size());
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (node.op->as<GradientOf>() != nullptr) wanted_[node.inputs[0].node] = true;
    const Read* read = node.op->as<Read>();
    if (read == nullptr || !graph.graph().storage(read->storage).trainable) continue;
    at::Tensor& leaf = values.of(i)[0];
    leaf.set_requires_grad(true);
    leaves_.push_back({read->storage, leaf, updated.contains(read->storage)});
  }
}

void BackwardPass::retain_gradient_for(const Node& node) {
  if (node.op->as<GradientOf>() != nullptr && values_[node.inputs[0]].requires_grad())
    values_[node.inputs[0]].retain_grad();
}

void BackwardPass::watch(std::int32_t node) {
  if (wanted_.empty() || !wanted_[node]) return;
  for (at::Tensor& tensor : values_.of(node)) {
    const bool watched = !tensor.defined() || !tensor.is_floating_point() ||
                         (tensor.requires_grad() && !tensor.is_leaf());
    if (!watched && !is_leaf(tensor)) tensor = tensor.detach().set_requires_grad(true);
  }
}

bool BackwardPass::is_leaf(const at::Tensor& tensor) const {
  return std::ranges::any_of(
      leaves_, [&](const ParameterLeaf& leaf) { return leaf.tensor.is_same(tensor); });
}

void BackwardPass::run() {
  at::AutoGradMode gradients(true);
  const at::Tensor& loss = values_[graph_.graph().objectives()[0].loss];
  if (loss.requires_grad()) loss.backward();  // else every use of a parameter was skipped
  if (averages_) average();
}

/// Gradients and the loss, in the order in which all ranks have them.
void BackwardPass::average() {
  const auto mean = [&](const at::Tensor& own) {
    return reference(*averages_, {own}, graph_.ops())[0];
  };
  for (ParameterLeaf& leaf : leaves_) {
    if (!leaf.is_reached) continue;
    const at::Tensor& own = leaf.tensor.grad();
    leaf.tensor.mutable_grad() = mean(own.defined() ? own : at::zeros_like(leaf.tensor.detach()));
  }
  at::Tensor& loss = values_[graph_.graph().objectives()[0].loss];
  loss = mean(loss.detach());
}

at::Tensor BackwardPass::gradient_of(ValueId id) const {
  const at::Tensor& of = values_[id];
  return of.grad().defined() ? of.grad().detach().clone() : at::zeros_like(of);
}

std::optional<std::string> BackwardPass::find_fault() const {
  for (const ParameterLeaf& leaf : leaves_) {
    const NonFiniteKinds found = non_finite_in(leaf.tensor.grad());
    if (found == NonFiniteKinds{}) continue;
    const Storage& storage = graph_.graph().storage(leaf.parameter);
    return fmt::format("gradient of \"{}\" ({}): {}", storage.path, to_string(storage.line),
                       found.nan ? "made a NaN" : "made an infinity");
  }
  return std::nullopt;
}

void BackwardPass::drop_gradients() {
  for (ParameterLeaf& leaf : leaves_) leaf.tensor.mutable_grad() = at::Tensor();
}

}  // namespace metronome::executor::eager
