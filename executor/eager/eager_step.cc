#include "executor/eager/eager_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "executor/engine/plan_nodes.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome::executor::eager {
namespace {

/// Without the stack that libtorch adds.
std::string why(const std::exception& failure) {
  const auto* torch = dynamic_cast<const c10::Error*>(&failure);
  return torch != nullptr ? torch->what_without_backtrace() : failure.what();
}

}  // namespace

EagerStep::EagerStep(EagerPlan declared, EagerMemory& tensors, const OwnOps& ops,
                     const EagerOptions& options)
    : graph_(declared.mode, std::move(declared.graph), tensors, ops),
      values_(graph_),
      calls_(graph_, options),
      backward_(graph_, values_, declared.updated, std::move(declared.averages)) {
  for (std::size_t o = 0; graph_.trains() && o < graph_.graph().objectives().size(); ++o) {
    optimizers_.emplace_back(graph_, backward_, o);
    kept_losses_.push_back(graph_.kept_loss(o));
  }
  for (std::int32_t i = 0; options.channels_last && i < graph_.size(); ++i) {
    if (graph_.node(i).op->as<Input>() == nullptr) continue;
    const at::Tensor& fed = values_.of(i)[0];
    if (fed.dim() == 4) images_.push_back({i, fed});
  }
}

void EagerStep::run() {
  bool changed = false;
  try {
    run(changed);
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& failure) {
    // An index out of range, met before anything is changed.
    if (!changed && dynamic_cast<const RunError*>(&failure) != nullptr) throw;
    backward_.drop_gradients();
    const std::int32_t node = std::exchange(running_, -1);
    const std::string part = node >= 0 ? describe(graph_.node(node))
                             : changed ? "assignments and updates"
                                       : "the backward pass";
    throw BrokenStep(part, why(failure), changed);
  }
}

void EagerStep::run(bool& changed) {
  const bool training = graph_.trains();
  graph_.send_inputs();
  calls_.begin_step();
  values_.begin_step();
  trains_.assign(optimizers_.size(), std::nullopt);
  updated_.assign(optimizers_.size(), false);
  ends_.assign(optimizers_.size(), true);
  updates_.clear();
  for (const ir::MinimizedLoss& objective : graph_.graph().objectives()) {
    updates_.push_back(graph_.counter(objective.counter));
  }
  updates_.push_back(graph_.counter(graph_.graph().counters().update));
  const std::size_t early = graph_.early_updates();
  for (std::size_t o = 0; o <= early; ++o) {
    {
      at::AutoGradMode gradients(training);
      forward(o);
    }
    at::NoGradGuard no_gradients;
    if (!training) break;
    backward_.run(o, [&](std::size_t objective) { return runs(objective); });
    if (calls_.looks()) calls_.note(backward_.find_fault());
    if (o == early) break;
    values_.keep_readables({ComputePhase::forward}, o);
    values_.keep_old_values(o);
    changed = true;
    gather(o);
    tell_numbers(o);
    update(o);
  }
  at::NoGradGuard no_gradients;
  for (std::size_t o = early; o < optimizers_.size(); ++o) {
    const ir::MinimizedLoss& objective = graph_.graph().objectives()[o];
    changed = changed || objective.accumulate > 1 || objective.may_rest();
    gather(o);
    tell_numbers(o);
  }
  follow(ComputePhase::gradients);
  values_.keep_readables({ComputePhase::forward, ComputePhase::gradients});
  values_.keep_old_values();
  changed = true;
  assign({ComputePhase::forward, ComputePhase::gradients});
  for (std::size_t o = early; o < optimizers_.size(); ++o) update(o);
  count();
  follow(ComputePhase::update);
  values_.keep_readables({ComputePhase::update});
  assign({ComputePhase::update});
  if (graph_.mode() == Mode::train) ++graph_.counter(graph_.graph().counters().replay);
  values_.release_held();
}

/// The counter `update` counts steps where no objective without a name has it.
void EagerStep::count() {
  if (!graph_.trains()) return;
  bool is_counted = false;
  for (std::size_t o = 0; o < optimizers_.size(); ++o) {
    const ir::MinimizedLoss& objective = graph_.graph().objectives()[o];
    is_counted = is_counted || objective.counter == graph_.graph().counters().update;
    if (updated_[o]) ++graph_.counter(objective.counter);
    if (objective.accumulate > 1 && trains(o)) ++graph_.counter(objective.gathered);
  }
  if (!is_counted) ++graph_.counter(graph_.graph().counters().update);
}

bool EagerStep::trains(std::size_t objective) {
  if (trains_[objective]) return *trains_[objective];
  const ir::MinimizedLoss& o = graph_.graph().objectives()[objective];
  bool result = graph_.counter(graph_.graph().counters().replay) % o.every == 0;
  if (o.when.present()) result = result && values_[o.when].item<bool>();
  trains_[objective] = result;
  return result;
}

bool EagerStep::runs(std::size_t objective) {
  return graph_.reads_gradients(objective) || trains(objective);
}

void EagerStep::gather(std::size_t objective) {
  keep_loss(objective);
  const ir::MinimizedLoss& o = graph_.graph().objectives()[objective];
  if (o.accumulate == 1) return;
  ends_[objective] = optimizers_[objective].ends();
  const double weight = o.weight.present() ? values_[o.weight].item<double>() : 1;
  if (runs(objective)) optimizers_[objective].gather(weight, trains(objective));
}

void EagerStep::update(std::size_t objective) {
  OptimizerStep& optimizer = optimizers_[objective];
  updated_[objective] =
      ends_[objective] && trains(objective) &&
      (!graph_.graph().objectives()[objective].skips_not_finite || optimizer.is_finite());
  if (updated_[objective]) {
    optimizer.run(values_.operand(graph_.graph().objectives()[objective].loss));
  } else {
    optimizer.skip();
  }
}

void EagerStep::keep_loss(std::size_t objective) {
  const at::Tensor& kept = kept_losses_[objective];
  if (!kept.defined()) return;
  const ir::MinimizedLoss& o = graph_.graph().objectives()[objective];
  if (trains(objective)) kept.copy_(values_.operand(o.loss).detach());
  const auto& readables = graph_.graph().readables();
  for (std::size_t r = 0; r < readables.size(); ++r) {
    if (readables[r].name == ir::name_of_loss(o.name)) values_.set_readable(r, kept.clone());
  }
}

bool EagerStep::rests(const Node& node) {
  if (node.op->as<AverageUpdate>() == nullptr) return false;
  const ir::Graph& graph = graph_.graph();
  const auto* after = graph.node(node.inputs[1]).op->as<AfterUpdate>();
  const auto* weight = graph.node(node.inputs[2]).op->as<AverageWeight>();
  const std::int32_t objective = graph.storage(after->storage).objective;
  const bool moves = objective < 0 || updated_[objective];
  return !moves || (updates_of(after->storage) + 1) % weight->every != 0;
}

std::int64_t EagerStep::updates_of(StorageId parameter) const {
  const std::int32_t objective = graph_.graph().storage(parameter).objective;
  return objective < 0 ? updates_.back() : updates_[objective];
}

/// As a program's `if` would: by asking the device.
bool EagerStep::skips(const Node& node) {
  return node.guard.present() && !values_[node.guard].item<bool>();
}

void EagerStep::forward(std::size_t updates) {
  for (const Image& image : images_) {
    if (updates > 0) break;
    values_.of(image.node) = {image.fed.contiguous(at::MemoryFormat::ChannelsLast)};
  }
  Tensors inputs;
  for (const std::int32_t i : graph_.order()) {
    if (graph_.updates_before(i) != updates) continue;
    const Node& node = graph_.node(i);
    running_ = i;
    if (graph_.phase(i) != ComputePhase::forward) {
      backward_.retain_gradient_for(node);
    } else if (skips(node) ||
               (graph_.only_for(i) >= 0 && !trains(static_cast<std::size_t>(graph_.only_for(i))))) {
      values_.of(i) = Tensors(node.types.size());  // for merges, which do not look at them
    } else if (!graph_.is_constant(i)) {
      inputs.clear();
      for (const ValueId id : node.inputs) inputs.push_back(values_[id]);
      values_.of(i) = calls_.call(i, inputs);
    }
    backward_.watch(i);
    values_.release_after(i);
  }
  running_ = -1;
}

void EagerStep::tell_numbers(std::size_t objective) {
  for (std::int32_t i = 0; i < graph_.size(); ++i) {
    const auto* asked = graph_.node(i).op->as<OfUpdate>();
    if (asked == nullptr || *objective_of(*graph_.node(i).op) != objective) continue;
    values_.of(i) = {optimizers_[objective].number(asked->number)};
  }
}

void EagerStep::follow(ComputePhase phase) {
  Tensors inputs;
  for (std::int32_t i = 0; i < graph_.size(); ++i) {
    if (graph_.phase(i) != phase) continue;
    const Node& node = graph_.node(i);
    if (node.op->as<OfUpdate>() != nullptr) continue;  // told
    running_ = i;
    if (node.op->as<GradientOf>() != nullptr) {
      values_.of(i) = {backward_.gradient_at(i)};
    } else if (const auto* after = node.op->as<AfterUpdate>()) {
      values_.of(i) = {graph_.storage(after->storage).detach()};
    } else if (const auto* updates = node.op->as<UpdatesOf>()) {
      values_.of(i) = {at::full({}, updates_of(updates->parameter), at::TensorOptions(at::kLong))};
    } else if (rests(node)) {
      values_.of(i) = Tensors(1);
    } else {
      inputs.clear();
      for (const ValueId id : node.inputs) inputs.push_back(values_.operand(id));
      values_.of(i) = calls_.call(i, inputs);
    }
  }
  running_ = -1;
}

void EagerStep::assign(Phases phases) {
  std::vector<std::pair<StorageId, at::Tensor>> next;  // one may be another's old value
  for (const Assignment& a : graph_.graph().assignments()) {
    if (graph_.is_in(phases, a.value) && values_[a.value].defined())
      next.emplace_back(a.storage, values_.operand(a.value).detach().clone());
  }
  for (const auto& [id, tensor] : next) graph_.storage(id).copy_(tensor);
}

}  // namespace metronome::executor::eager
