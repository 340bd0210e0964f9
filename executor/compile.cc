// From a declaration to an executable.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "executor/cpu_engine.h"
#include "executor/cuda/cuda_kernels.h"
#include "executor/cuda/cuda_replay.h"
#include "executor/cuda/cuda_steps.h"
#include "executor/eager.h"
#include "executor/executable_impl.h"
#include "executor/fold_constants.h"
#include "executor/plan.h"
#include "executor/tuning.h"
#include "graph/error.h"
#include "graph/passes/for_mode.h"
#include "graph/structural.h"
#include "ops/cpu/table.h"
#include "ops/cuda/table.h"

namespace metronome {
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

/// True where the plan is for a device's kernels.
bool plans_for_device(const Target& target) {
  return target.kind != Target::Kind::eager && target.device.kind == Device::Kind::cuda;
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
/// How much larger an arena may be than the smallest, for fewer launches.
constexpr double kRoomForFewBuckets = 1.1;

/// The plan of one mode for a device: the fewest batches of updates that memory allows.
Plan plan_for_device(const Graph& graph, Settings settings, const Kernels& kernels,
                     const SelectOptions& options, std::optional<std::size_t> budget,
                     Report& report) {
  std::vector<Plan> plans;
  std::vector<Report> reports;
  for (const std::size_t buckets : kBuckets) {
    settings.buckets = buckets;
    reports.push_back(report);
    plans.push_back(make_plan(graph, settings, kernels, options, reports.back()));
    // More batches than there are updates change nothing.
    if (plans.size() > 1 &&
        plans.back().graph.nodes().size() == plans[plans.size() - 2].graph.nodes().size()) {
      break;
    }
  }
  std::size_t least = SIZE_MAX;
  for (const Plan& plan : plans) least = std::min(least, plan.memory.arena_bytes);
  const auto room = budget ? static_cast<double>(std::max(least, *budget))
                           : kRoomForFewBuckets * static_cast<double>(least);
  std::size_t chosen = 0;
  while (static_cast<double>(plans[chosen].memory.arena_bytes) > room) ++chosen;
  report = std::move(reports[chosen]);
  return std::move(plans[chosen]);
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
  check(target.cuda, graph.name());
  if (plans_for_device(target) && target.driver == nullptr) {
    target.driver = open_cuda(target.device.index);
  }
  if (options.threads == 0) options.threads = at::get_num_threads();
  if (options.tuning_file.empty()) options.tuning_file = TuningFile::default_path();

  auto impl = std::make_unique<Executable::Impl>();
  impl->declared = graph.copy();
  impl->declared_by = &graph.state();
  Report& report = impl->report;
  report.graph = graph.name();
  report.target = name_of(target);
  report.isa = cpu_table().isa();
  report.threads = options.threads;

  Settings settings;
  settings.evaluate = evaluate_constants;
  SelectOptions select_options{options.tune, options.tuning_file};
  std::unique_ptr<Kernels> kernels;
  if (plans_for_device(target)) {
    settings.alignment = kDeviceAlignment;
    if (target.cuda.fuse) {
      settings.fuses = [](const Op& op) { return cuda_table().has(op); };
    }
    kernels = cuda_kernels(*target.driver, target.cuda.tf32);
    if (!target.driver->computes()) select_options.tune = Tune::off;
  } else {
    kernels = cpu_kernels(options.threads);
  }
  // eager runs no plan; it is made all the same, for its storages and for the report beside
  // eager's.
  if (target.kind == Target::Kind::eager) select_options.tune = Tune::off;
  std::vector<Plan> plans;
  for (const Mode mode : options.modes) {
    settings.mode = mode;
    plans.push_back(plans_for_device(target)
                        ? plan_for_device(graph, settings, *kernels, select_options,
                                          options.memory_budget, report)
                        : make_plan(graph, settings, *kernels, select_options, report));
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
    case Target::Kind::cuda_graph:
      impl->engine =
          make_cuda_replay(std::move(plans), impl->memory, target.driver, target.cuda, report);
      break;
    case Target::Kind::stepwise:
      impl->engine = plans_for_device(target) ? make_cuda_stepwise(std::move(plans), impl->memory,
                                                                   target.driver, target.cuda)
                                              : make_stepwise(std::move(plans), impl->memory);
      break;
    case Target::Kind::eager: {
      std::vector<EagerMode> modes;
      for (const Mode mode : options.modes) {
        settings.mode = mode;
        modes.push_back({mode, for_mode(graph, settings)});
      }
      impl->engine = make_eager(std::move(modes), impl->memory, target.device);
      break;
    }
  }
  report.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Executable(std::move(impl));
}

}  // namespace metronome
