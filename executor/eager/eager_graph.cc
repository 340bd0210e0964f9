#include "executor/eager/eager_graph.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/ir/error.h"

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
  find_only_for();
  order_.resize(phases_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(
      order_, {}, [&](std::int32_t i) { return std::pair(updates_before_[i], only_for_[i] >= 0); });
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    if (phases_[i] != ComputePhase::forward) continue;
    early_updates_ = std::max(early_updates_, updates_before_[i]);
  }
}

/// Backwards from the losses of objectives that may rest: what anything else needs is not theirs
/// alone, nor is a loss of which a gradient is to be read.
void EagerGraph::find_only_for() {
  only_for_.assign(phases_.size(), -1);
  if (!trains()) return;
  constexpr std::int32_t kNobody = -2;
  std::vector<std::int32_t> needed(phases_.size(), kNobody);
  const auto need = [&](ValueId id, std::int32_t by) {
    if (!id.present()) return;
    std::int32_t& now = needed[id.node];
    now = now == kNobody || now == by ? by : -1;
  };
  const std::vector<ir::MinimizedLoss>& objectives = graph_.objectives();
  for (std::size_t o = 0; o < objectives.size(); ++o) {
    const bool rests = objectives[o].may_rest() && !reads_gradients(o);
    need(objectives[o].loss, rests ? static_cast<std::int32_t>(o) : -1);
    need(objectives[o].when, -1);
    need(objectives[o].weight, -1);
  }
  for (const Readable& r : graph_.readables()) {
    if (!is_kept_loss(r)) need(r.value, -1);
  }
  for (const Assignment& a : graph_.assignments()) need(a.value, -1);
  for (std::int32_t i = size() - 1; i >= 0; --i) {
    const Node& node = graph_.nodes()[i];
    bool is_own = phases_[i] == ComputePhase::forward && needed[i] >= 0;
    if (is_own) {  // decided before
      const ValueId when = objectives[needed[i]].when;
      is_own = !when.present() || updates_before_[i] >= updates_before_[when.node];
    }
    if (is_own && !node.inputs.empty() && !node.guard.present()) only_for_[i] = needed[i];
    for (const ValueId input : node.inputs) need(input, only_for_[i]);
    need(node.guard, -1);
  }
}

std::size_t EagerGraph::updates_before_loss(std::size_t objective) const {
  const ir::MinimizedLoss& o = graph_.objectives()[objective];
  const std::size_t loss = updates_before_[o.loss.node];
  return o.when.present() ? std::max(loss, updates_before_[o.when.node]) : loss;
}

bool EagerGraph::is_kept_loss(const Readable& readable) const {
  if (!trains()) return false;
  return std::ranges::any_of(graph_.objectives(), [&](const ir::MinimizedLoss& objective) {
    return objective.may_rest() && readable.value == objective.loss &&
           readable.name == ir::name_of_loss(objective.name);
  });
}

at::Tensor EagerGraph::kept_loss(std::size_t objective) const {
  const ir::MinimizedLoss& o = graph_.objectives()[objective];
  if (!o.may_rest()) return {};
  const at::Tensor kept = made_storage(ir::path_of_kept_loss(o.name));
  if (!kept.defined()) throw InternalError("no storage keeps the loss " + o.name);
  return kept;
}

at::Tensor EagerGraph::made_storage(const std::string& path) const {
  const std::vector<Storage>& storages = tensors_.memory().storages;
  const auto found = std::ranges::find(storages, path, &Storage::path);
  if (found == storages.end()) return {};
  return tensors_.storage(static_cast<std::size_t>(found - storages.begin()));
}

bool EagerGraph::reads_gradients(std::size_t objective) const {
  return std::ranges::any_of(graph_.nodes(), [&](const Node& node) {
    const auto* number = node.op->as<OfUpdate>();
    if (number != nullptr && number->number == UpdateNumber::learning_rate) return false;
    return objective_of(*node.op) == objective;
  });
}

std::int64_t& EagerGraph::counter(StorageId id) const {
  const Block& block = tensors_.memory().storage_blocks[storages_[id.index]];
  return *reinterpret_cast<std::int64_t*>(block.data());
}

}  // namespace metronome::executor::eager
