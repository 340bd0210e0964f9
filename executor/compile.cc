// From a declaration to an executable.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "executor/cpu_engine.h"
#include "executor/eager.h"
#include "executor/executable_impl.h"
#include "executor/fold_constants.h"
#include "executor/plan.h"
#include "executor/tuning.h"
#include "graph/error.h"
#include "graph/passes/for_mode.h"
#include "graph/structural.h"
#include "ops/cpu/table.h"

namespace metronome {
namespace {

std::string_view name_of(Target::Kind kind) {
  switch (kind) {
    case Target::Kind::cpu_replay:
      return "cpu_replay";
    case Target::Kind::stepwise:
      return "stepwise";
    case Target::Kind::eager:
      return "eager";
  }
  throw InternalError("a target out of range");
}

/// The storages of the plan that has most: training adds the optimizer's moments.
std::span<const Storage> all_storages(const std::vector<Plan>& plans) {
  const auto most = std::max_element(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return a.graph.storages().size() < b.graph.storages().size();
  });
  return most->graph.storages();
}

std::vector<bool> inputs_read(const Graph& graph, const Memory& memory) {
  std::vector<bool> read;
  for (const InputMemory& input : memory.inputs) {
    read.push_back(std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& n) {
      const Input* i = n.op->as<Input>();
      return i != nullptr && i->input == input.name;
    }));
  }
  return read;
}

}  // namespace

Executable compile(const Graph& graph, Target target, CompileOptions options) {
  const auto begin = std::chrono::steady_clock::now();
  graph.validate();
  if (options.modes.empty()) {
    throw RunError(
        fmt::format("graph \"{}\": CompileOptions::modes is empty; give mt::train, "
                    "mt::evaluate or both",
                    graph.name()));
  }
  if (options.threads < 0) {
    throw RunError(
        fmt::format("graph \"{}\": CompileOptions::threads is {}; give 1 or more, or 0 for "
                    "as many as libtorch uses",
                    graph.name(), options.threads));
  }
  if (options.threads == 0) options.threads = at::get_num_threads();
  if (options.tuning_file.empty()) options.tuning_file = TuningFile::default_path();

  auto impl = std::make_unique<Executable::Impl>();
  impl->declared = graph.copy();
  impl->declared_by = &graph.state();
  Report& report = impl->report;
  report.graph = graph.name();
  report.target = name_of(target.kind);
  report.isa = cpu_table().isa();
  report.threads = options.threads;

  Settings settings;
  settings.evaluate = evaluate_constants;
  SelectOptions select_options{options.threads, options.tune, options.tuning_file};
  // eager runs no plan; it is made all the same, for its storages and for the report beside
  // eager's.
  if (target.kind == Target::Kind::eager) select_options.tune = Tune::off;
  std::vector<Plan> plans;
  for (const Mode mode : options.modes) {
    settings.mode = mode;
    plans.push_back(make_plan(graph, settings, select_options, report));
    const PlanReport& plan = plans.back().report;
    if (options.memory_budget && plan.arena_bytes > *options.memory_budget) {
      throw RunError(fmt::format(
          "graph \"{}\": the plan to {} needs an arena of {} bytes, but the "
          "budget is {}; the smallest that is feasible is {}",
          graph.name(), name_of(mode), plan.arena_bytes, *options.memory_budget, plan.arena_bytes));
    }
    report.arena_bytes = std::max(report.arena_bytes, plan.arena_bytes);
    report.plans.push_back(plan);
  }
  impl->memory = make_memory(graph, all_storages(plans), options.seed);
  for (const Storage& s : impl->memory.storages) {
    report.storage_bytes += s.type.bytes();
    if (s.kind == StorageKind::parameter) {
      report.parameter_count += static_cast<std::size_t>(s.type.numel());
    }
  }
  impl->computed_by.resize(graph.readables().size());
  for (const Plan& plan : plans) {
    Executable::Impl::Reach reach{inputs_read(plan.graph, impl->memory), {}};
    for (const Readable& r : plan.graph.readables()) reach.readables.push_back(r.value.present());
    impl->reach[static_cast<std::size_t>(plan.mode)] = std::move(reach);
  }
  impl->options = options;

  switch (target.kind) {
    case Target::Kind::cpu_replay:
      impl->engine = make_cpu_replay(std::move(plans), impl->memory, options.poison);
      break;
    case Target::Kind::stepwise:
      impl->engine = make_stepwise(std::move(plans), impl->memory);
      break;
    case Target::Kind::eager: {
      std::vector<EagerMode> modes;
      for (const Mode mode : options.modes) {
        settings.mode = mode;
        modes.push_back({mode, for_mode(graph, settings)});
      }
      impl->engine = make_eager(std::move(modes), impl->memory);
      break;
    }
  }
  report.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Executable(std::move(impl));
}

}  // namespace metronome
