#include "executor/run/step_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "executor/engine/tensor_copy.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor {

StepValues::StepValues(const DeclaredGraphs& declared, const Engine& engine, int slots,
                       std::optional<std::size_t> step_bytes)
    : declared_(declared),
      engine_(engine),
      computed_by_(declared.readables().size()),
      recent_(static_cast<std::size_t>(slots)) {
  if (step_bytes) lookout_.emplace(declared.prefix(), declared.readables(), *step_bytes);
}

void StepValues::note_step(std::int64_t number, PlanId plan) {
  recent_[static_cast<std::size_t>(number) % recent_.size()] = plan;
  const PlanInterface& interface = declared_.plan(plan);
  for (std::size_t i = 0; i < computed_by_.size(); ++i) {
    if (interface.readables[i]) computed_by_[i] = plan;
  }
}

void StepValues::note_broken_step(PlanId plan) {
  std::ranges::replace(computed_by_, plan, kBrokenOff);
}

PlanId StepValues::last_plan() const {
  return recent_[static_cast<std::size_t>(engine_.steps() - 1) % recent_.size()];
}

PlanId StepValues::plan_of(std::size_t readable) const {
  if (!computed_by_[readable].present()) refuse(readable);
  return computed_by_[readable];
}

void StepValues::refuse(std::size_t readable) const {
  const std::string prefix = declared_.prefix();
  const std::string& name = declared_.readables()[readable];
  const bool of_training = declared_.is_of_training(readable);
  const std::vector<PlanInterface>& plans = declared_.plans();
  if (std::ranges::none_of(plans, [&](const PlanInterface& p) { return p.readables[readable]; })) {
    throw RunError(fmt::format(
        "{}: no step computes \"{}\": it was compiled to evaluate alone{}; add mt::train "
        "to CompileOptions::modes{}",
        prefix, name, of_training ? ", which makes no gradients and no update" : "",
        of_training ? "" : ", or it to CompileOptions::evaluate_outputs"));
  }
  if (computed_by_[readable] == kBrokenOff) {
    throw RunError(fmt::format(
        "{}: the step that was to produce \"{}\" broke off; run another first", prefix, name));
  }
  const auto evaluates = [](const PlanInterface& p) { return p.mode != Mode::train; };
  if (std::ranges::any_of(plans, evaluates) &&
      std::ranges::none_of(
          plans, [&](const PlanInterface& p) { return evaluates(p) && p.readables[readable]; })) {
    throw RunError(fmt::format(
        "{}: no step has produced \"{}\" yet, as evaluations do not compute it: call run(){}",
        prefix, name, of_training ? "" : ", or add it to CompileOptions::evaluate_outputs"));
  }
  throw RunError(
      fmt::format("{}: no step has produced \"{}\" yet; call run() first", prefix, name));
}

void StepValues::require_scalar(PlanId plan, std::size_t readable) const {
  const ir::Graph& graph = declared_.graph_of(plan);
  const Readable& read = graph.readables()[declared_.readable_in_graph(plan, readable)];
  const Type& type = graph.type(read.declared);
  if (type.numel() == 1) return;
  throw RunError(
      fmt::format("graph \"{}\": read_scalar requires one element, but \"{}\" is {}; use read",
                  graph.name(), read.name, to_string(type)));
}

void StepValues::require_scalars(std::size_t readable) const {
  for (std::size_t p = 0; p < declared_.plans().size(); ++p) {
    const PlanId plan{static_cast<std::int32_t>(p)};
    if (declared_.plan(plan).readables[readable]) require_scalar(plan, readable);
  }
}

void StepValues::warn_of_fault() {
  if (warned_ || !engine_.has_fault()) return;
  warned_ = true;
  logger().warn("{}: {}", declared_.prefix(), engine_.fault().value_or(""));
}

void StepValues::warn_of_fault(std::int64_t step) {
  if (warned_ || !engine_.has_fault()) return;
  warned_ = true;
  logger().warn("{}: by step {}: {}", declared_.prefix(), step, engine_.fault().value_or(""));
}

Tensor StepValues::read(std::size_t readable) {
  const PlanId plan = plan_of(readable);
  Tensor result = engine_.readable(plan, declared_.readable_in_graph(plan, readable));
  warn_of_fault();
  if (lookout_) lookout_->look(readable, result, engine_.steps(), declared_.graph_of(plan).name());
  return result;
}

void StepValues::read_into(std::size_t readable, const CallerTensor& to) {
  const PlanId plan = plan_of(readable);
  const std::size_t index = declared_.readable_in_graph(plan, readable);
  const ir::Graph& graph = declared_.graph_of(plan);
  const Type& type = graph.type(graph.readables()[index].declared);
  const auto what = [&] {
    return fmt::format("graph \"{}\": read_into of \"{}\"", graph.name(),
                       graph.readables()[index].name);
  };
  if (!fits(to, type, engine_)) executor::refuse(to, to_string(type), what(), "", &engine_);
  if (to.tensor.device != cpu) {
    engine_.read_into(plan, index, to.tensor);
    return warn_of_fault();
  }
  if (!to.tensor.is_contiguous()) {
    throw RunError(fmt::format("{}: requires contiguous elements, but the tensor has strides {}",
                               what(), to_string(to.tensor.strides)));
  }
  copy_into(to.tensor.data, read(readable));
}

double StepValues::read_scalar(std::size_t readable) {
  const PlanId plan = plan_of(readable);
  require_scalar(plan, readable);
  const double number = engine_.scalar(plan, declared_.readable_in_graph(plan, readable));
  warn_of_fault();
  if (lookout_) lookout_->look(readable, number, engine_.steps(), declared_.graph_of(plan).name());
  return number;
}

double StepValues::read_scalar(std::size_t readable, std::int64_t step) {
  PlanId plan = plan_of(readable);
  const auto kept = static_cast<std::int64_t>(recent_.size());
  const std::int64_t next = engine_.steps();
  // The engine says why any other step cannot be read.
  if (step >= 0 && step < next && step >= next - kept)
    plan = recent_[static_cast<std::size_t>(step % kept)];
  const PlanInterface& interface = declared_.plan(plan);
  if (!interface.readables[readable]) {
    throw RunError(fmt::format("graph \"{}\": step {} was one to {}, which computes no \"{}\"",
                               declared_.graph_of(plan).name(), step, name_of(interface.mode),
                               declared_.readables()[readable]));
  }
  require_scalar(plan, readable);
  const double number = engine_.scalar(plan, declared_.readable_in_graph(plan, readable), step);
  warn_of_fault();
  if (lookout_) lookout_->look(readable, number, step + 1, declared_.graph_of(plan).name());
  return number;
}

}  // namespace metronome::executor
