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
    const Storage& s = graph.graph().storage(read->storage);
    leaves_.push_back({read->storage, static_cast<std::size_t>(std::max(s.objective, 0)), leaf,
                       updated.contains(read->storage)});
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

template <class F>
void BackwardPass::for_asked(std::size_t objective, const F& f) const {
  for (std::int32_t i = 0; i < graph_.size(); ++i) {
    const Node& node = graph_.node(i);
    if (node.op->as<GradientOf>() == nullptr || objective_of(*node.op) != objective) continue;
    f(i, node.inputs[0]);
  }
}

void BackwardPass::run(std::size_t updates,
                       const std::function<bool(std::size_t objective)>& runs) {
  const std::size_t objectives = graph_.graph().objectives().size();
  std::vector<std::size_t> now;
  bool more = false;
  for (std::size_t o = 0; o < objectives; ++o) {
    if (graph_.updates_before_loss(o) == updates && runs(o)) now.push_back(o);
    more = more || graph_.updates_before_loss(o) > updates;
  }
  {
    at::AutoGradMode gradients(true);
    for (const std::size_t o : now) differentiate(o, more || o != now.back());
  }
  if (!averages_) return;
  for (std::size_t o = 0; o < objectives; ++o) {
    if (graph_.updates_before_loss(o) != updates) continue;
    average_loss(graph_.graph().objectives()[o].loss);
    if (runs(o)) average(o);
  }
}

void BackwardPass::differentiate(std::size_t objective, bool retain) {
  const std::size_t objectives = graph_.graph().objectives().size();
  const at::Tensor& loss = values_[graph_.graph().objectives()[objective].loss];
  Tensors inputs;
  for (const ParameterLeaf& leaf : leaves_) {
    if (leaf.objective == objective) inputs.push_back(leaf.tensor);
  }
  for_asked(objective, [&](std::int32_t, ValueId value) {
    if (values_[value].requires_grad()) inputs.push_back(values_[value]);
  });
  // A value that another objective asks for gathers what this pass lets flow through it.
  for (std::size_t o = 0; o < objectives; ++o) {
    for_asked(o, [&](std::int32_t, ValueId value) { drop_gradient(values_[value]); });
  }
  if (!loss.requires_grad() || inputs.empty()) {
    // Every use of a parameter was skipped.
  } else if (objectives == 1) {
    loss.backward();
  } else {
    loss.backward({}, retain, false, inputs);
  }
  for (ParameterLeaf& leaf : leaves_) {
    if (leaf.objective == objective) leaf.gradient = leaf.tensor.grad();
  }
  for_asked(objective, [&](std::int32_t node, ValueId id) {
    const at::Tensor& value = values_[id];
    asked_[node] = value.grad().defined() ? value.grad().detach().clone() : at::zeros_like(value);
  });
  for (at::Tensor& input : inputs) drop_gradient(input);
}

void BackwardPass::drop_gradient(const at::Tensor& value) {
  if (value.defined()) value.mutable_grad() = at::Tensor();
}

/// Once of a loss that objectives share. Not of one that no rank has computed.
void BackwardPass::average_loss(ValueId loss) {
  const at::Tensor& own = values_[loss];
  if (!own.defined() || values_.has_mean(loss)) return;
  values_.set_mean(loss, reference(*averages_, {own.detach()}, graph_.ops())[0]);
}

/// In the order in which all ranks have the gradients.
void BackwardPass::average(std::size_t objective) {
  const auto mean = [&](const at::Tensor& own) {
    return reference(*averages_, {own}, graph_.ops())[0];
  };
  for (ParameterLeaf& leaf : leaves_) {
    if (!leaf.is_reached || leaf.objective != objective) continue;
    const at::Tensor& own = leaf.gradient;
    leaf.gradient = mean(own.defined() ? own : at::zeros_like(leaf.tensor.detach()));
  }
  for_asked(objective, [&](std::int32_t node, ValueId id) {
    for (const ParameterLeaf& leaf : leaves_) {
      if (leaf.objective != objective || !leaf.gradient.defined()) continue;
      if (leaf.tensor.is_same(values_[id])) asked_[node] = leaf.gradient.clone();
    }
  });
}

std::optional<std::string> BackwardPass::find_fault() const {
  for (const ParameterLeaf& leaf : leaves_) {
    const NonFiniteKinds found = non_finite_in(leaf.gradient);
    if (found == NonFiniteKinds{}) continue;
    const Storage& storage = graph_.graph().storage(leaf.parameter);
    return fmt::format("gradient of \"{}\" ({}): {}", storage.path, to_string(storage.line),
                       found.nan ? "made a NaN" : "made an infinity");
  }
  return std::nullopt;
}

void BackwardPass::drop_gradients() {
  for (ParameterLeaf& leaf : leaves_) {
    leaf.tensor.mutable_grad() = at::Tensor();
    leaf.gradient = at::Tensor();
  }
}

}  // namespace metronome::executor::eager
