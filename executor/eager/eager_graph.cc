#include "executor/eager/eager_graph.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace metronome::executor::eager {

EagerGraph::EagerGraph(Mode mode, ir::Graph graph, EagerMemory& tensors, const OwnOps& ops)
    : mode_(mode),
      graph_(std::move(graph)),
      tensors_(tensors),
      ops_(ops),
      storages_(tensors.memory().storages_of(graph_)) {
  const std::vector<bool> by_training = ir::made_by_training(graph_);
  for (std::size_t i = 0; i < by_training.size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (const Input* input = node.op->as<Input>()) inputs_.push_back(tensors.memory().find(*input));
    ComputePhase phase = by_training[i] ? ComputePhase::gradients : ComputePhase::forward;
    for (const ValueId id : node.inputs) phase = std::max(phase, phases_[id.node]);
    if (node.op->as<AfterUpdate>() != nullptr) phase = ComputePhase::update;
    phases_.push_back(phase);
  }
  if (trains()) {
    updates_before_ = ir::updates_before(graph_);
  } else {
    updates_before_.resize(phases_.size());
  }
  order_.resize(phases_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, {}, [&](std::int32_t i) { return updates_before_[i]; });
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    if (phases_[i] != ComputePhase::forward) continue;
    early_updates_ = std::max(early_updates_, updates_before_[i]);
  }
}

std::int64_t& EagerGraph::counter(StorageId id) const {
  const Block& block = tensors_.memory().storage_blocks[storages_[id.index]];
  return *reinterpret_cast<std::int64_t*>(block.data());
}

}  // namespace metronome::executor::eager
