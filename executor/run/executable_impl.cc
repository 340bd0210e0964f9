#include "executor/run/executable_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "executor/checkpoint/take_snapshot.h"
#include "executor/engine/faults.h"
#include "executor/engine/tensor_copy.h"
#include "executor/record/record_plans.h"
#include "executor/support/log.h"
#include "graph/builder/glob.h"
#include "graph/ir/error.h"
#include "ops/language/init.h"

namespace metronome {
namespace {

template <class Range, class Name>
std::string list_names(const Range& range, Name name) {
  std::vector<std::string> names;
  for (const auto& item : range) names.push_back(fmt::format("\"{}\"", name(item)));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string of_other(const Value& value) {
  return fmt::format("of another graph, \"{}\"", value.identity()->name);
}

}  // namespace

std::string Executable::Impl::prefix() const { return fmt::format("graph \"{}\"", first().name()); }

void Executable::Impl::finish_tables() {
  const std::size_t count = inputs.size();
  for (std::size_t i = 0; i < count; ++i) input_named[inputs[i]] = i;
  for (std::size_t k = 0; k < declared.size(); ++k) {
    declared[k].inputs.assign(count, kNone);
    for (const std::size_t index : memory.inputs_of[k]) {
      declared[k].inputs[input_named.at(memory.inputs[index].name)] = index;
    }
  }
  shape_to.resize(averages.size() * kModes);
  for (std::size_t k = declared.size(); k-- > 0;) pick(k);
  fed.in.resize(count);
  fed.inputs.reserve(count);
  for (PlanInterface& plan : plans) {
    plan.missing = static_cast<std::size_t>(std::ranges::count(plan.inputs, true));
  }
  if (options.watch) return;  // which tells of more
  std::vector<std::string> names = readables;
  std::size_t bytes = report.arena_bytes;
  for (const Storage& s : memory.storages) {
    names.push_back(s.path);
    bytes += s.type.bytes();
  }
  nan_lookout.emplace(prefix(), std::move(names), bytes);
}

std::string Executable::Impl::input_names() const {
  return list_names(inputs, [](const std::string& name) { return name; });
}

void Executable::Impl::pick(std::size_t picked) {
  shape = picked;
  for (std::size_t kind = 0; kind < shape_to.size(); ++kind) {
    if (declared[picked].plans[kind].present()) shape_to[kind] = picked;
  }
}

Executable::Impl::InputPlace Executable::Impl::input_of(const Value& value) const {
  for (std::size_t k = 0; value.id().present() && k < declared.size(); ++k) {
    if (value.identity() != declared[k].declared_by) continue;
    const auto node = static_cast<std::size_t>(value.id().node);
    const std::vector<std::int32_t>& input_at = declared[k].input_at;
    // The user's graph may have grown since.
    if (node < input_at.size() && input_at[node] >= 0) {
      return {k, static_cast<std::size_t>(input_at[node])};
    }
  }
  throw RunError(fmt::format("{}: the value that is fed is {}, which are {}", prefix(),
                             !value.present() ? "absent, not an input"
                             : is_own(value)  ? "not one of its inputs"
                                              : of_other(value) + ", not one of its inputs",
                             input_names()));
}

Executable::Impl::InputPlace Executable::Impl::input_of(std::string_view name) const {
  const auto found = input_named.find(name);
  if (found != input_named.end()) {
    std::size_t k = shape;
    for (std::size_t next = 0; !has({k, found->second}); ++next) k = next;
    return {k, found->second};
  }
  throw RunError(
      fmt::format("{} has no input \"{}\"; its inputs are {}", prefix(), name, input_names()));
}

std::size_t Executable::Impl::readable_of(const Value& value) const {
  const auto kept = [&] {
    return list_names(readables, [](const std::string& name) { return name; });
  };
  for (const DeclaredGraph& d : declared) {
    if (value.identity() != d.declared_by || !value.id().present()) continue;
    for (std::size_t i = 0; i < d.readables.size(); ++i) {
      if (d.readables[i] == kNone) continue;
      if (d.graph.readables()[d.readables[i]].declared == value.id()) return i;
    }
    if (static_cast<std::size_t>(value.id().node) >= d.graph.nodes().size()) {
      throw RunError(
          fmt::format("{}: the value that is read was declared after the graph was compiled; kept "
                      "are {}",
                      prefix(), kept()));
    }
    throw RunError(
        fmt::format("{}: \"{}\" is not kept after a step; declare it with Graph::output or "
                    "Value::named. Kept are {}",
                    prefix(), d.graph.node(value.id()).path, kept()));
  }
  if (!value.present()) {
    throw RunError(fmt::format("{}: the value that is read is absent{}; kept are {}", prefix(),
                               no_loss(), kept()));
  }
  throw RunError(fmt::format("{}: the value that is read is {}; kept are {}", prefix(),
                             is_own(value) ? "not one of its values" : of_other(value), kept()));
}

std::string_view Executable::Impl::no_loss() const {
  const bool any = std::ranges::any_of(
      declared, [](const DeclaredGraph& d) { return !d.graph.objectives().empty(); });
  return any ? "" : " (without Graph::minimize there is no loss)";
}

std::size_t Executable::Impl::readable_of(std::string_view name) const {
  for (std::size_t i = 0; i < readables.size(); ++i) {
    if (readables[i] == name) return i;
  }
  throw RunError(fmt::format("{} keeps no value \"{}\"{}; it keeps {}", prefix(), name,
                             name == "loss" ? no_loss() : "",
                             list_names(readables, [](const std::string& r) { return r; })));
}

void Executable::Impl::require_scalar(executor::PlanId plan, std::size_t readable) const {
  const ir::Graph& graph = declared[plans[plan.index].shape].graph;
  const Readable& read = graph.readables()[readable_in_graph(plan, readable)];
  const Type& type = graph.type(read.declared);
  if (type.numel() == 1) return;
  throw RunError(fmt::format("{}: read_scalar requires one element, but \"{}\" is {}; use read",
                             prefix(), read.name, to_string(type)));
}

bool Executable::Impl::of_training(std::size_t readable) const {
  return std::ranges::any_of(declared, [&](const DeclaredGraph& d) {
    if (d.readables[readable] == kNone) return false;
    const ValueId id = d.graph.readables()[d.readables[readable]].declared;
    return static_cast<bool>(ir::made_by_training(d.graph)[id.node]);
  });
}

std::size_t Executable::Impl::storage_of(std::string_view path) const {
  for (std::size_t i = 0; i < memory.storages.size(); ++i) {
    if (memory.storages[i].path == path) return i;
  }
  throw RunError(fmt::format("{} has no storage \"{}\"; it has {}", prefix(), path,
                             list_names(memory.storages, [](const Storage& s) { return s.path; })));
}

std::size_t Executable::Impl::average_of(std::string_view name) const {
  const auto found = std::ranges::find(averages, name);
  if (found != averages.end()) return static_cast<std::size_t>(found - averages.begin());
  const std::vector<std::string> kept(averages.begin() + 1, averages.end());
  throw RunError(fmt::format("{} has no averages \"{}\" to evaluate with; it has {}{}", prefix(),
                             name, list_names(kept, [](const std::string& of) { return of; }),
                             kept.empty() ? ": declare some with Graph::average" : ""));
}

bool Executable::Impl::is_own(const Value& value) const {
  return std::ranges::any_of(
      declared, [&](const DeclaredGraph& d) { return value.identity() == d.declared_by; });
}

executor::PlanId Executable::Impl::last_plan(std::size_t readable) const {
  if (computed_by[readable].present()) return computed_by[readable];
  if (std::ranges::none_of(plans, [&](const PlanInterface& p) { return p.readables[readable]; })) {
    throw RunError(fmt::format(
        "{}: no step computes \"{}\": it was compiled to evaluate alone{}; add mt::train "
        "to CompileOptions::modes{}",
        prefix(), readables[readable],
        of_training(readable) ? ", which makes no gradients and no update" : "",
        of_training(readable) ? "" : ", or it to CompileOptions::evaluate_outputs"));
  }
  if (computed_by[readable] == kBrokenOff) {
    throw RunError(
        fmt::format("{}: the step that was to produce \"{}\" broke off; run another first",
                    prefix(), readables[readable]));
  }
  const auto evaluates = [](const PlanInterface& p) { return p.mode != Mode::train; };
  if (std::ranges::any_of(plans, evaluates) &&
      std::ranges::none_of(
          plans, [&](const PlanInterface& p) { return evaluates(p) && p.readables[readable]; })) {
    throw RunError(fmt::format(
        "{}: no step has produced \"{}\" yet, as evaluations do not compute it: call run(){}",
        prefix(), readables[readable],
        of_training(readable) ? "" : ", or add it to CompileOptions::evaluate_outputs"));
  }
  throw RunError(fmt::format("{}: no step has produced \"{}\" yet; call run() first", prefix(),
                             readables[readable]));
}

void Executable::Impl::warn_of_fault() const {
  if (warned || !engine->faulted()) return;
  warned = true;
  executor::logger().warn("{}: {}", prefix(), engine->fault().value_or(""));
}

void Executable::Impl::warn_of_saved(const std::string& file) const {
  std::vector<std::string_view> paths;
  for (std::size_t i = 0; i < memory.storages.size(); ++i) {
    const Storage& s = memory.storages[i];
    if (!is_floating(s.type.element)) continue;
    if (executor::non_finite_in(memory.plain(i).data(), s.type).nan) paths.push_back(s.path);
  }
  if (paths.empty()) return;
  const std::size_t more = paths.size() - 1;
  executor::logger().warn("{}: {} is saved with nan in \"{}\"{}; {}", prefix(), file, paths[0],
                          more == 0 ? "" : fmt::format(" and {} more", more),
                          executor::kWatchAdvice);
}

Tensor Executable::Impl::read(std::size_t readable) const {
  const executor::PlanId plan = last_plan(readable);
  Tensor result = engine->readable(plan, readable_in_graph(plan, readable));
  warn_of_fault();
  if (nan_lookout) nan_lookout->look(readable, result, engine->steps());
  return result;
}

double Executable::Impl::read_scalar(std::size_t readable) const {
  const executor::PlanId plan = last_plan(readable);
  require_scalar(plan, readable);
  const double number = engine->scalar(plan, readable_in_graph(plan, readable));
  warn_of_fault();
  if (nan_lookout) nan_lookout->look(readable, number, engine->steps());
  return number;
}

double Executable::Impl::read_scalar(std::size_t readable, std::int64_t step) const {
  executor::PlanId plan = last_plan(readable);
  const auto kept = static_cast<std::int64_t>(recent.size());
  const std::int64_t next = engine->steps();
  // The engine says why any other step cannot be read.
  if (step >= 0 && step < next && step >= next - kept)
    plan = recent[static_cast<std::size_t>(step % kept)];
  if (!plans[plan.index].readables[readable]) {
    throw RunError(fmt::format("{}: step {} was one to {}, which computes no \"{}\"", prefix(),
                               step, name_of(plans[plan.index].mode), readables[readable]));
  }
  require_scalar(plan, readable);
  const double number = engine->scalar(plan, readable_in_graph(plan, readable), step);
  warn_of_fault();
  if (nan_lookout) nan_lookout->look(readable, number, step + 1);
  return number;
}

Tensor Executable::Impl::fill(InputPlace place) {
  const std::size_t index = declared[place.shape].inputs[place.input];
  executor::InputMemory& input = memory.inputs[index];
  if (!input.handed_out) {
    if (executor::Block better = engine->block_to_fill(index)) input.block = std::move(better);
    if (input.filled) engine->fetch_input(index);
  }
  pick(place.shape);
  memory.hand_out(index);
  mark_filled(index);
  return executor::tensor_in({&input.block}, input.type);
}

void Executable::Impl::set_storage(std::size_t storage, const CallerTensor& offered) {
  const Type& type = memory.storages[storage].type;
  if (!executor::fits(offered, type)) {
    executor::refuse(offered, to_string(type),
                     fmt::format("{}: set of \"{}\"", prefix(), memory.storages[storage].path),
                     executor::describe_conversion(offered, type));
  }
  executor::copy_into(memory.plain(storage).data(), offered.tensor);
  push(storage);
}

void Executable::Impl::reset_states(std::optional<std::string_view> path) {
  std::vector<std::string> states;
  bool found = false;
  for (std::size_t i = 0; i < memory.storages.size(); ++i) {
    const Storage& s = memory.storages[i];
    if (s.kind != StorageKind::state) continue;
    states.push_back(s.path);
    if (path && !glob_finds(*path, s.path)) continue;
    initialise(s, options.seed, memory.plain(i).data());
    push(i);
    found = true;
  }
  if (found || !path) return;
  throw RunError(fmt::format("{}: reset of \"{}\" finds no state; its states are {}", prefix(),
                             *path, list_names(states, [](const std::string& s) { return s; })));
}

Tensor Executable::Impl::storage_tensor(std::size_t storage) const {
  fetch(storage);
  Tensor copy =
      executor::clone(executor::tensor_in({&memory.plain(storage)}, memory.storages[storage].type));
  if (nan_lookout) nan_lookout->look(readables.size() + storage, copy, engine->steps());
  return copy;
}

std::int64_t Executable::Impl::counter(StorageId counter) const {
  const auto storage = static_cast<std::size_t>(counter.index);  // those of the first graph lead
  engine->fetch(storage);
  return *reinterpret_cast<const std::int64_t*>(memory.storage_blocks[storage].data());
}

void Executable::Impl::fetch(std::size_t storage) const {
  engine->fetch(storage);
  memory.show(storage);
}

void Executable::Impl::push(std::size_t storage) {
  memory.keep(storage);
  engine->push(storage);
}

void Executable::Impl::fetch_all() const {
  for (std::size_t i = 0; i < memory.storages.size(); ++i) fetch(i);
}

void Executable::Impl::push_all() {
  for (std::size_t i = 0; i < memory.storages.size(); ++i) push(i);
}

Snapshot Executable::Impl::snapshot() const {
  require_whole();
  fetch_all();
  return executor::checkpoint::take_snapshot(fmt::format("the snapshot of {}", prefix()),
                                             storage_entries(), origin());
}

std::vector<std::string> Executable::Impl::load(const Loader& load) {
  fetch_all();
  struct Push {  // whether it loads, or resets what it had begun to load
    Impl& impl;
    ~Push() { impl.push_all(); }
  } const push{*this};
  std::vector<std::string> lines = load(storage_entries(), origin());
  half_changed.clear();
  return lines;
}

std::vector<executor::checkpoint::StorageEntry> Executable::Impl::storage_entries() const {
  std::vector<executor::checkpoint::StorageEntry> all;
  for (std::size_t i = 0; i < memory.storages.size(); ++i) {
    const Storage& s = memory.storages[i];
    all.push_back({s.path, s.type, s.kind, memory.plain(i).data(),
                   [s, seed = options.seed](std::byte* out) { initialise(s, seed, out); }});
  }
  return all;
}

PlanRecord Executable::Impl::plan_record() const {
  std::vector<const executor::Plan*> recorded;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    recorded.push_back(engine->plan({static_cast<std::int32_t>(i)}));
    if (recorded.back() == nullptr) {
      throw RunError(
          fmt::format("{}: {} runs no plan, so there is none to record; compile for "
                      "cpu_replay, cuda_graph, null or stepwise",
                      prefix(), report.target));
    }
  }
  return executor::record_of(report, recorded);
}

}  // namespace metronome
