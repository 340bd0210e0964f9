#include "executor/eager/reference_calls.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "executor/libtorch/convert.h"
#include "graph/ir/error.h"
#include "ops/reference/table.h"

namespace metronome::executor::eager {

ReferenceCalls::ReferenceCalls(const EagerGraph& graph, const EagerOptions& options)
    : graph_(graph), observer_(options.observer) {
  if (options.watch) watch_.emplace(graph.graph(), graph.tensors().memory());
}

void ReferenceCalls::begin_step() {
  if (watch_) watch_->begin(graph_.tensors().inputs(), graph_.tensors().storages());
}

Tensors ReferenceCalls::call(std::int32_t index, const Tensors& inputs) {
  const Node& node = graph_.node(index);
  Tensors made;
  try {
    made = reference(*node.op, inputs, graph_.ops());
  } catch (const c10::Error&) {
    const auto stray = graph_.tensors().on_device() ? std::nullopt : stray_lookup(node, inputs);
    if (!stray) throw;
    throw refusal(*stray);
  }
  if (const auto refused = refused_number(node, inputs)) throw refusal(*refused);
  if (observer_) observer_->after(make_observed_node(index, inputs, made));
  if (fault_) return made;
  if (const Guard* guard = node.op->as<Guard>()) {
    if (clamps(*guard, inputs)) fault_ = stray_lookup(node, inputs);
  } else if (watch_) {
    fault_ = watch_->look(index, made);
  }
  return made;
}

RunError ReferenceCalls::refusal(const std::string& fault) const {
  return RunError(fmt::format("graph \"{}\": {}", graph_.graph().name(), fault));
}

/// Returns a node as an observer sees it: tensors on the CPU with their data, others without.
ObservedNode ReferenceCalls::make_observed_node(std::int32_t index, const Tensors& inputs,
                                                const Tensors& made) const {
  ObservedNode node{.graph = graph_.graph(), .index = index, .operands = {}, .results = {}};
  const auto show = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_cpu() ? from_torch(tensor.detach()) : Tensor{};
  };
  std::ranges::transform(inputs, std::back_inserter(node.operands), show);
  std::ranges::transform(made, std::back_inserter(node.results), show);
  return node;
}

/// Cheap, so that the baseline is no slower; on a device it would be one more synchronization.
bool ReferenceCalls::clamps(const Guard& guard, const Tensors& inputs) const {
  const at::Tensor& selector = inputs[0];
  if (graph_.tensors().on_device() || !selector.defined()) return false;
  if (selector.scalar_type() == at::kBool) return false;
  if (guard.nested && !inputs[1].item<bool>()) return false;  // nothing asks for it
  const auto outcome = selector.item<std::int64_t>();
  return outcome < 0 || outcome >= guard.cases;
}

}  // namespace metronome::executor::eager
