// From a declaration to an executable.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "executor/compile/compile_checks.h"
#include "executor/compile/make_memory.h"
#include "executor/compile/pipeline.h"
#include "executor/compile/target_settings.h"
#include "executor/cpu/cpu_engine.h"
#include "executor/cpu/cpu_kernels.h"
#include "executor/cuda/capture/cuda_replay.h"
#include "executor/cuda/capture/cuda_steps.h"
#include "executor/cuda/program/cuda_kernels.h"
#include "executor/eager/eager.h"
#include "executor/engine/plan.h"
#include "executor/engine/tuning.h"
#include "executor/run/executable_impl.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/prune.h"
#include "ops/cpu/table.h"

namespace metronome::executor::compile {
namespace {

std::string name_of(const Target& target) {
  const bool on_device = target.device.kind == Device::Kind::cuda;
  switch (target.kind) {
    case Target::Kind::cpu_replay:
      return "cpu_replay";
    case Target::Kind::cuda_graph:
      return target.driver != nullptr && !target.driver->computes() ? "null" : "cuda_graph";
    case Target::Kind::stepwise:
      return on_device ? "stepwise on a GPU" : "stepwise";
    case Target::Kind::eager:
      return on_device ? "eager on a GPU" : "eager";
  }
  throw InternalError("a target out of range");
}

void check(const CudaOptions& options, const std::string& graph) {
  const auto refuse = [&](const char* what, int number, const char* least) {
    throw RunError(
        fmt::format("graph \"{}\": CudaOptions::{} is {}; give {}", graph, what, number, least));
  };
  if (options.device < 0) refuse("device", options.device, "0 or more");
  if (options.slots < 1) refuse("slots", options.slots, "1 or more");
  if (options.streams < 1) refuse("streams", options.streams, "1 or more");
}

/// Into how many batches the updates of many parameters may go, few first: one launch in place of
/// many, but all gradients live at once.
constexpr std::size_t kBuckets[] = {1, 4, 16};
/// How much larger an arena may be than the smallest, for fewer launches: by this factor, or by
/// these bytes where they are more. Reckoned, not measured: a node of a graph takes some
/// microseconds, in which a device moves some MiB.
constexpr double kRoomForFewBuckets = 1.1;
constexpr std::size_t kBytesForFewBuckets = std::size_t{8} << 20;

/// The plan of one mode for a device: the fewest batches of updates that memory allows.
Plan plan_for_device(const Declared& declared, Settings settings, const Kernels& kernels,
                     const SelectOptions& options, std::optional<std::size_t> budget,
                     Report& report) {
  std::vector<Plan> plans;
  std::vector<Report> reports;
  for (const std::size_t buckets : kBuckets) {
    settings.buckets = buckets;
    reports.push_back(report);
    plans.push_back(make_plan(declared, settings, kernels, options, reports.back()));
    // More batches than there are updates change nothing.
    if (plans.size() > 1 &&
        plans.back().graph.nodes().size() == plans[plans.size() - 2].graph.nodes().size()) {
      break;
    }
  }
  std::size_t least = SIZE_MAX;
  for (const Plan& plan : plans) least = std::min(least, plan.memory.arena_bytes);
  const auto room = budget ? static_cast<double>(std::max(least, *budget))
                           : std::max(kRoomForFewBuckets * static_cast<double>(least),
                                      static_cast<double>(least + kBytesForFewBuckets));
  std::size_t chosen = 0;
  while (static_cast<double>(plans[chosen].memory.arena_bytes) > room) ++chosen;
  report = std::move(reports[chosen]);
  return std::move(plans[chosen]);
}

void require_within(const PlanReport& plan, std::size_t budget, const std::string& graph) {
  if (plan.arena_bytes <= budget) return;
  const std::string batch = plan.batch.empty() ? "" : fmt::format(" at batch shape {}", plan.batch);
  throw RunError(
      fmt::format("graph \"{}\": the plan to {}{} needs an arena of {} bytes, but the budget is "
                  "{}; the smallest that is feasible is {}",
                  graph, name_of(plan.mode), batch, plan.arena_bytes, budget, plan.arena_bytes));
}

/// Each storage of any plan: training adds the optimizer's moments.
std::vector<Storage> all_storages(const std::vector<Plan>& plans) {
  std::vector<Storage> all;
  std::set<std::string_view> known;
  for (const Plan& plan : plans) {
    for (const Storage& s : plan.graph.storages()) {
      if (known.insert(s.path).second) all.push_back(s);
    }
  }
  return all;
}

/// What a plan touches, in the numbers of the first graph.
Executable::Impl::Planned planned(const Plan& plan, const Executable::Impl& impl) {
  Executable::Impl::Planned result{plan.mode, plan.shape, {}, {}};
  for (const std::size_t input : impl.memory.inputs_of[plan.shape]) {
    const std::string& name = impl.memory.inputs[input].name;
    result.inputs.push_back(std::ranges::any_of(plan.graph.nodes(), [&](const Node& n) {
      const Input* i = n.op->as<Input>();
      return i != nullptr && i->input == name;
    }));
  }
  for (const std::size_t readable : impl.declared[plan.shape].readables) {
    result.readables.push_back(plan.graph.readables()[readable].value.present());
  }
  return result;
}

/// A graph as the executable keeps it; `first` gives the numbers of inputs and readables.
Executable::Impl::DeclaredGraph kept(const Graph& declared, const ir::Graph& first) {
  const ir::Graph& graph = declared.data();
  Executable::Impl::DeclaredGraph result{graph, declared.identity(), {}, {}, {}};
  const std::vector<DeclaredInput> inputs = inputs_of(graph), numbered = inputs_of(first);
  result.input_at.resize(graph.nodes().size(), -1);
  for (std::size_t i = 0; i < numbered.size(); ++i) {
    const auto own = std::ranges::find(inputs, numbered[i].name, &DeclaredInput::name);
    result.input_at[own->value.node] = static_cast<std::int32_t>(i);
  }
  const std::vector<Readable>& readables = graph.readables();
  for (std::size_t i = 0; i < first.readables().size(); ++i) {
    const std::string& name = first.readables()[i].name;
    const bool same_place = i < readables.size() && readables[i].name == name;
    const auto found = std::ranges::find(readables, name, &Readable::name);
    result.readables.push_back(same_place ? i
                                          : static_cast<std::size_t>(found - readables.begin()));
  }
  return result;
}

/// `needs` becomes what the plans need, as soon as that is known.
Executable made(std::span<const Graph* const> users, std::span<const ir::Graph* const> graphs,
                Target target, CompileOptions options, Needs& needs) {
  const auto begin = std::chrono::steady_clock::now();
  const ir::Graph& first = *graphs[0];
  check(target.cuda, first.name());
  if (plans_for_device(target) && target.driver == nullptr) {
    target.driver = open_cuda(target.device.index);
  }
  if (options.threads == 0) options.threads = at::get_num_threads();
  const auto room = room_of_process();
  require_room(first.name(), needs, room);
  // eager runs no plan; it is made all the same, for its storages and for the report beside
  // eager's.
  if (target.kind == Target::Kind::eager) options.tune = Tune::off;
  if (options.kernels == Family::usual) options.kernels = family_of_environment();
  if (options.tuning_file.empty()) options.tuning_file = TuningFile::default_path();
  if (options.tune != Tune::off) options.tuning_file = TuningFile::usable(options.tuning_file);

  auto impl = std::make_unique<Executable::Impl>();
  for (const Graph* graph : users) impl->declared.push_back(kept(*graph, first));
  impl->shapes.emplace(graphs);
  Report& report = impl->report;
  report.graph = first.name();
  report.target = name_of(target);
  report.isa = cpu_table().isa();
  report.threads = options.threads;

  SelectOptions select_options{.tune = options.tune, .tuning_file = options.tuning_file};
  std::unique_ptr<Kernels> kernels;
  if (plans_for_device(target)) {
    kernels = program::cuda_kernels(*target.driver, target.cuda.tf32);
    if (!target.driver->computes()) select_options.tune = Tune::off;
  } else {
    kernels = cpu::cpu_kernels(options.threads);
    select_options.family = options.kernels;
    if (target.device.kind == Device::Kind::cpu) select_options.room = room;
  }
  std::vector<Plan> plans;
  for (std::size_t shape = 0; shape < graphs.size(); ++shape) {
    const ir::Graph evaluated = limited_to(*graphs[shape], options.evaluate_outputs);
    for (const Mode mode : options.modes) {
      const Settings settings = settings_for(target, mode);
      const Declared declared{mode == Mode::evaluate ? evaluated : *graphs[shape], shape,
                              impl->shapes->describe(shape)};
      plans.push_back(plans_for_device(target)
                          ? plan_for_device(declared, settings, *kernels, select_options,
                                            options.memory_budget, report)
                          : make_plan(declared, settings, *kernels, select_options, report));
      const PlanReport& plan = plans.back().report;
      if (options.memory_budget) require_within(plan, *options.memory_budget, first.name());
      report.arena_bytes = std::max(report.arena_bytes, plan.arena_bytes);
      report.plans.push_back(plan);
      impl->declared[shape].plans[static_cast<std::size_t>(mode)] = {
          static_cast<std::int32_t>(plans.size()) - 1};
    }
  }
  std::vector<Storage> storages = all_storages(plans);
  needs = host_needs(graphs, storages, plans, target);
  require_room(first.name(), needs, room_of_process());
  impl->memory = make_memory(graphs, std::move(storages), options.seed);
  for (const Storage& s : impl->memory.storages) {
    report.storage_bytes += s.type.bytes();
    if (s.kind == StorageKind::parameter) {
      report.parameter_count += static_cast<std::size_t>(s.type.numel());
    }
  }
  for (const Plan& plan : plans) impl->plans.push_back(planned(plan, *impl));
  impl->computed_by.resize(first.readables().size());
  impl->recent.resize(static_cast<std::size_t>(target.cuda.slots));
  impl->options = options;
  impl->finish_tables();

  switch (target.kind) {
    case Target::Kind::cpu_replay:
      impl->engine = cpu::make_cpu_replay(std::move(plans), impl->memory,
                                          {.poison = options.poison, .watch = options.watch});
      break;
    case Target::Kind::cuda_graph:
      impl->engine = capture::make_cuda_replay(std::move(plans), impl->memory, target.driver,
                                               target.cuda, options.watch, report);
      break;
    case Target::Kind::stepwise:
      impl->engine = plans_for_device(target)
                         ? capture::make_cuda_stepwise(std::move(plans), impl->memory,
                                                       target.driver, target.cuda, options.watch)
                         : cpu::make_stepwise(std::move(plans), impl->memory, options.watch);
      break;
    case Target::Kind::eager: {
      std::vector<eager::EagerPlan> eager;
      for (const Plan& plan : plans) {
        const Settings settings = settings_for(target, plan.mode);
        std::set<StorageId> updated;
        for (const Assignment& a : plan.graph.assignments()) updated.insert(a.storage);
        ir::Graph graph = passes::for_mode(*graphs[plan.shape], settings);
        if (plan.mode == Mode::evaluate && !options.evaluate_outputs.empty()) {
          graph = passes::prune(limited_to(graph, options.evaluate_outputs), settings);
        }
        eager.push_back({plan.mode, std::move(graph), std::move(updated)});
      }
      impl->engine =
          eager::make_eager(std::move(eager), impl->memory, target.device, options.watch);
      break;
    }
  }
  report.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Executable(std::move(impl));
}

Executable compiled(std::span<const Graph* const> graphs, Target target, CompileOptions options) {
  const std::vector<const ir::Graph*> declared = check_arguments(graphs, target, options);
  Needs needs = declared_needs(declared);
  try {
    return made(graphs, declared, std::move(target), std::move(options), needs);
  } catch (const std::bad_alloc&) {
    refuse_for_room(graphs[0]->name(), needs);
  }
}

}  // namespace
}  // namespace metronome::executor::compile

namespace metronome {

Executable compile(const Graph& graph, Target target, CompileOptions options) {
  return compile({&graph}, std::move(target), std::move(options));
}

Executable compile(std::initializer_list<const Graph*> graphs, Target target,
                   CompileOptions options) {
  return compile(std::span(graphs.begin(), graphs.size()), std::move(target), std::move(options));
}

Executable compile(std::span<const Graph* const> graphs, Target target, CompileOptions options) {
  return executor::compile::compiled(graphs, std::move(target), std::move(options));
}

}  // namespace metronome
