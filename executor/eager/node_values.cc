#include "executor/eager/node_values.h"

#include <algorithm>

#include "graph/ir/structural.h"
#include "ops/reference/table.h"

namespace metronome::executor::eager {
namespace {

const void* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

}  // namespace

NodeValues::NodeValues(const EagerGraph& graph)
    : graph_(graph), values_(graph.size()), readables_(graph.graph().readables().size()) {
  find_read_behind_update();
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (const Input* input = node.op->as<Input>()) {
      values_[i] = {graph.input(*input)};
    } else if (const Read* read = node.op->as<Read>()) {
      // A tensor of its own for autograd, because another plan reads the same storage.
      values_[i] = {graph.storage(read->storage).detach()};
      if (std::ranges::find(read_behind_update_, i) != read_behind_update_.end()) {
        values_[i][0] = values_[i][0].clone();
      }
    } else if (const auto* updated = node.op->as<ReadUpdated>()) {
      values_[i] = {graph.storage(updated->storage).detach()};
    } else if (node.inputs.empty() && !stands_for_training(*node.op)) {
      values_[i] = reference(*node.op, {}, graph.ops());
      for (at::Tensor& constant : values_[i]) constant = constant.to(graph.tensors().device());
    }
    for (const at::Tensor& kept : values_[i]) lasting_.insert(storage_of(kept));
    if (const auto* after = node.op->as<AfterUpdate>()) {
      lasting_.insert(storage_of(graph.storage(after->storage)));
    }
  }
  find_last_uses();
}

bool NodeValues::outlives_step(const at::Tensor& tensor) const {
  return lasting_.contains(storage_of(tensor));
}

/// The parameters on whose old values something depends that is computed behind their update,
/// perhaps through what autograd keeps.
void NodeValues::find_read_behind_update() {
  if (graph_.early_updates() == 0) return;
  for (std::int32_t read = 0; read < graph_.size(); ++read) {
    const Read* op = graph_.node(read).op->as<Read>();
    if (op == nullptr) continue;
    const Storage& s = graph_.graph().storage(op->storage);
    if (s.kind != StorageKind::parameter || !s.trainable) continue;
    const auto updated = static_cast<std::size_t>(s.objective);
    std::vector<bool> depends(graph_.size());
    depends[read] = true;
    bool behind = false;
    for (std::int32_t i = read + 1; i < graph_.size(); ++i) {
      for (const ValueId id : graph_.node(i).inputs) depends[i] = depends[i] || depends[id.node];
      behind = behind || (depends[i] && graph_.phase(i) == ComputePhase::forward &&
                          graph_.updates_before(i) > updated);
    }
    for (std::size_t o = 0; o < graph_.graph().objectives().size(); ++o) {
      const ValueId loss = graph_.graph().objectives()[o].loss;
      behind = behind || (depends[loss.node] && graph_.updates_before_loss(o) > updated);
    }
    if (behind) read_behind_update_.push_back(read);
  }
}

void NodeValues::begin_step() {
  old_.clear();
  means_.clear();
  for (const std::int32_t read : read_behind_update_) {
    const at::Tensor storage = graph_.storage(graph_.node(read).op->as<Read>()->storage);
    values_[read][0].detach().copy_(storage.detach());
  }
}

void NodeValues::find_last_uses() {
  const std::int32_t count = graph_.size();
  const ir::Graph& declared = graph_.graph();
  std::vector<std::int32_t> last(count, -1);
  for (const std::int32_t i : graph_.order()) {
    if (!graph_.is_constant(i)) last[i] = i;
    for (const ValueId id : graph_.node(i).inputs) {
      if (!graph_.is_constant(id.node)) last[id.node] = i;
    }
    if (const ValueId guard = graph_.node(i).guard; guard.present()) last[guard.node] = i;
  }
  const auto hold = [&](ValueId id) {
    if (!id.present() || graph_.is_constant(id.node)) return;
    last[id.node] = -1;
    held_.push_back(id.node);
  };
  for (const ir::MinimizedLoss& objective : declared.objectives()) {
    hold(objective.loss);
    hold(objective.when);
    hold(objective.weight);
  }
  for (const Readable& r : declared.readables()) hold(r.value);
  for (std::int32_t i = 0; i < count; ++i) {
    if (graph_.phase(i) == ComputePhase::forward) continue;
    hold({i, 0});
    for (const ValueId id : graph_.node(i).inputs) hold(id);
  }
  for (const Assignment& a : declared.assignments()) hold(a.value);
  releases_.resize(count);
  for (std::int32_t i = 0; i < count; ++i) {
    if (last[i] >= 0) releases_[last[i]].push_back(i);
  }
}

void NodeValues::release_after(std::int32_t node) {
  for (const std::int32_t dead : releases_[node]) values_[dead].clear();
}

void NodeValues::release_held() {
  for (const std::int32_t node : held_) values_[node].clear();
}

void NodeValues::keep_old_values(std::optional<std::size_t> updates) {
  const auto keep = [&](ValueId id) {
    const ComputePhase phase = graph_.phase(id.node);
    const bool is_there =
        updates ? phase == ComputePhase::forward && graph_.updates_before(id.node) <= *updates
                : phase != ComputePhase::update;
    if (!is_there || old_.contains(id) || !(*this)[id].defined()) return;
    const at::Tensor of = (*this)[id].detach();
    if (outlives_step(of)) old_[id] = of.clone();
  };
  for (std::int32_t i = 0; i < graph_.size(); ++i) {
    const ComputePhase phase = graph_.phase(i);
    const bool is_late =
        phase == ComputePhase::update || (updates && phase == ComputePhase::gradients);
    if (!is_late) continue;
    for (const ValueId id : graph_.node(i).inputs) keep(id);
  }
  if (!updates) return;
  for (const Assignment& a : graph_.graph().assignments()) keep(a.value);
}

const at::Tensor& NodeValues::operand(ValueId id) {
  if (const auto mean = means_.find(id); mean != means_.end()) return mean->second;
  const auto old = old_.find(id);
  return old == old_.end() ? (*this)[id] : old->second;
}

void NodeValues::keep_readables(Phases phases, std::optional<std::size_t> updates) {
  for (std::size_t r = 0; r < readables_.size(); ++r) {
    const ValueId id = graph_.graph().readables()[r].value;
    if (!id.present() || !graph_.is_in(phases, id)) continue;
    if (graph_.is_kept_loss(graph_.graph().readables()[r])) continue;
    const bool is_forward = graph_.phase(id.node) == ComputePhase::forward;
    const std::size_t last = updates.value_or(graph_.early_updates());
    if (is_forward && graph_.updates_before(id.node) != last) continue;
    const auto mean = means_.find(id);
    const at::Tensor kept = mean != means_.end() ? mean->second : (*this)[id].detach();
    // Copies what a step changes also if an op gave a view of it.
    readables_[r] = outlives_step(kept) ? kept.clone() : kept;
  }
}

}  // namespace metronome::executor::eager
