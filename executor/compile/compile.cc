// From declared graphs to an executable, on one page:
//
//   compile              checks the arguments; the ranks join
//   make_executable      opens the back end; makes all plans, the memory that they share, the
//                        engine
//   plan_within_budget   passes; then, for each number of batches that the back end asks for, the
//                        passes that are left, kernels, order and places, check
#include "executor/compile/compile.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "executor/compile/arguments.h"
#include "executor/compile/evaluation_graphs.h"
#include "executor/compile/executable_memory.h"
#include "executor/compile/first_choices.h"
#include "executor/compile/fit_budget.h"
#include "executor/compile/join_ranks.h"
#include "executor/compile/layout_chooser.h"
#include "executor/compile/make_plan.h"
#include "executor/compile/run_passes.h"
#include "executor/compile/select.h"
#include "executor/compile/summary.h"
#include "executor/compile/whole_op_chooser.h"
#include "executor/cpu/evaluate_constants.h"
#include "executor/engine/backend.h"
#include "executor/engine/ranks.h"
#include "executor/engine/tuning.h"
#include "executor/run/declared_graphs.h"
#include "executor/run/executable_impl.h"
#include "executor/support/spin_limiter.h"
#include "graph/check/check_plan.h"
#include "graph/ir/error.h"
#include "graph/plan/planner.h"

namespace metronome::executor::compile {

// ---- one plan ------------------------------------------------------------------------------

namespace {

/// A step as far as all its plans have it in common, with what was found on the way to it.
struct PassedGraph {
  ir::Graph graph;
  PlanReport summary;
  Report report;
  std::vector<KernelChoice> timed = {};  ///< which the tuning file holds since
};

PassedGraph run_shared_passes(const PlanInput& declared, const Settings& settings,
                              const Kernels& kernels, const CompileOptions& options,
                              Report report) {
  WholeOpChooser keep_whole(kernels, settings, options, report);
  Settings passed = settings;
  passed.keeps = [&](const OpPtr& op, std::span<const Type> types) {
    return keep_whole(op, types);
  };
  PlanReport summary;
  summary.mode = settings.mode;
  summary.batch = declared.batch;
  ir::Graph graph = begin_passes(declared, passed, summary, report);
  return {std::move(graph), std::move(summary), std::move(report)};
}

/// `report` gains the choices of kernels.
Plan finish_plan(ir::Graph begun, PlanReport summary, const PlanInput& declared,
                 const Settings& settings, const Kernels& kernels, const CompileOptions& options,
                 Report& report) {
  ir::Graph graph = end_passes(std::move(begun), declared, settings, summary);
  require_kernels(graph, kernels, options.ops, report.target);
  if (const auto free = kernels.free_memory())
    require_memory(graph.name(), biggest_value(graph), free);
  std::vector<Candidate> choices =
      select(graph, kernels, options, declared.parameters_stay, summary, report);
  return place({settings.mode,
                declared.shape,
                declared.average,
                std::move(graph),
                std::move(choices),
                {},
                {},
                {},
                std::move(summary)},
               settings);
}

/// The settings of a plan of what was declared.
Settings settings_for(const PlanInput& declared, Settings settings, const CompileOptions& options) {
  settings.layouts.kept = declared.kept;
  settings.averages = declared.averages;
  settings.plan_work = options.plan_work;
  settings.recomputed.insert(settings.recomputed.end(), options.recompute.begin(),
                             options.recompute.end());
  if (options.data_parallel) settings.rank = options.data_parallel->rank();
  return settings;
}

}  // namespace

Settings settings_of(const Backend& backend, Mode mode) {
  Settings settings = backend.settings(mode);
  settings.evaluate = cpu::evaluate_constants;
  return settings;
}

Plan place(Plan plan, const Settings& settings) {
  const ir::Graph& graph = plan.graph;
  for (const Candidate& choice : plan.choices) plan.scratch_bytes.push_back(choice.scratch_bytes);
  plan::StepPlan step = plan::plan_step(graph, plan.scratch_bytes, settings);
  plan.schedule = std::move(step.schedule);
  plan.memory = std::move(step.memory);
  if (const auto wrong =
          check::check_plan(graph, plan.schedule, plan.scratch_bytes, plan.memory, settings)) {
    throw InternalError(fmt::format("the memory plan of \"{}\": {}", graph.name(), *wrong));
  }
  summarize(plan);
  return plan;
}

Plan make_plan(const PlanInput& declared, const Settings& settings, const Kernels& kernels,
               const CompileOptions& options, Report& report) {
  const Settings all = settings_for(declared, settings, options);
  PassedGraph begun = run_shared_passes(declared, all, kernels, options, std::move(report));
  report = std::move(begun.report);
  return finish_plan(std::move(begun.graph), std::move(begun.summary), declared, all, kernels,
                     options, report);
}

namespace {

/// A plan, and the report with what was found on the way to it.
struct ReportedPlan {
  Plan plan;
  Report report;
};

/// Replaces what the tuning file tells by what was timed before it was written.
void tell_times(std::vector<KernelChoice>& choices, const std::vector<KernelChoice>& timed) {
  for (KernelChoice& choice : choices) {
    const auto same = [&](const KernelChoice& t) {
      return t.what == choice.what && t.chosen == choice.chosen;
    };
    if (const auto found = std::ranges::find_if(timed, same); found != timed.end()) choice = *found;
  }
}

/// In plain tensors, or in the layouts that ops wish if that is faster, or if an earlier plan keeps
/// parameters so: then `settings` say so.
PassedGraph pass_in_layouts(const PlanInput& declared, const LayoutWishes& wishes,
                            const Kernels& kernels, const CompileOptions& options,
                            const Report& report, Settings& settings) {
  Settings wanted = settings;
  wanted.layouts.wants = wishes.wants;
  const bool kept = std::ranges::any_of(
      declared.kept, [](const auto& storage) { return !storage.second.plain(); });
  if (wishes.wants && kept) settings = wanted;
  PassedGraph begun = run_shared_passes(declared, settings, kernels, options, report);
  if (kept || options.tune == Tune::off || !wants_layouts(begun.graph, wishes)) return begun;
  LayoutChooser chooser(begun.graph, kernels, options);
  std::optional<bool> prefers = chooser.known();
  std::optional<PassedGraph> laid_out;
  if (prefers.value_or(options.tune == Tune::measure)) {
    laid_out = run_shared_passes(declared, wanted, kernels, options, begun.report);
  }
  if (!prefers && laid_out) {
    // The rest of the passes, as of the first plan, so that what is fused is timed so.
    PlanReport ignored;
    const ir::Graph plain = end_passes(begun.graph, declared, settings, ignored);
    const ir::Graph other = end_passes(laid_out->graph, declared, wanted, ignored);
    require_kernels(plain, kernels, options.ops, report.target);
    prefers = chooser.time(plain, other);
  }
  if (!prefers) return begun;
  if (*prefers) {
    settings = wanted;
    begun = std::move(*laid_out);
  }
  begun.summary.choices.push_back(chooser.choice());
  begun.report.choices.push_back(chooser.choice());
  begun.timed = chooser.timed();
  return begun;
}

/// So much less memory, at most, does a plan take with more batches of updates than another: each
/// batch holds its gradients until the last of them is made, and the rest may stay as it is.
std::size_t gradient_bytes(const ir::Graph& graph) {
  std::size_t bytes = 0;
  for (const Storage& s : graph.storages()) bytes += s.trainable ? s.type.bytes() : 0;
  return bytes;
}

/// The plan of one mode: of those with the numbers of batches that the back end asks for, the one
/// that it keeps. `settings` gain the layouts that were chosen, of those that are wished.
ReportedPlan choose_plan(const PlanInput& declared, Mode mode, const Backend& backend,
                         const LayoutWishes& wishes, const CompileOptions& options,
                         const Report& report, Settings& settings) {
  std::vector<ReportedPlan> made;
  std::vector<std::size_t> arenas;
  PassedGraph begun =
      pass_in_layouts(declared, wishes, backend.kernels(), options, report, settings);
  const std::vector<std::size_t> buckets = backend.buckets(mode);
  const std::size_t gradients = mode == Mode::train ? gradient_bytes(begun.graph) : 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    settings.buckets = buckets[i];
    Report told = begun.report;
    ir::Graph graph = i + 1 < buckets.size() ? begun.graph : std::move(begun.graph);
    Plan plan = finish_plan(std::move(graph), begun.summary, declared, settings, backend.kernels(),
                            options, told);
    tell_times(plan.report.choices, begun.timed);
    tell_times(told.choices, begun.timed);
    arenas.push_back(plan.memory.arena_bytes);
    made.push_back({std::move(plan), std::move(told)});
    // If one number changes nothing, those after it change nothing either.
    const std::size_t count = made.size();
    if (count > 1 &&
        made[count - 1].plan.graph.nodes().size() == made[count - 2].plan.graph.nodes().size()) {
      break;
    }
    // The first is kept whatever the others need, if it is kept beside one that needs as little as
    // they may.
    const std::size_t bound = made[0].plan.memory.lower_bound;
    const std::size_t beside_least[] = {arenas[0], bound - std::min(bound, gradients)};
    if (count == 1 && backend.choose(beside_least, options.memory_budget) == 0) break;
  }
  return std::move(made[backend.choose(arenas, options.memory_budget)]);
}

/// The best plan, with as little computed again as the memory budget asks for. Throws RunError
/// where no plan keeps to it.
Plan plan_within_budget(const PlanInput& declared, Mode mode, const Backend& backend,
                        const CompileOptions& options, Report& report) {
  const Settings plain = settings_for(declared, settings_of(backend, mode), options);
  Settings settings = plain;
  auto [plan, told] =
      choose_plan(declared, mode, backend, backend.layouts(), options, report, settings);
  const std::optional<std::size_t> budget = options.memory_budget;
  if (budget && plan.memory.arena_bytes > *budget && settings.layouts.wants) {
    // Copies into other layouts take memory, too.
    Settings own = plain;
    if (auto made = choose_plan(declared, mode, backend, {}, options, report, own);
        made.plan.memory.arena_bytes < plan.memory.arena_bytes) {
      plan = std::move(made.plan), told = std::move(made.report), settings = own;
    }
  }
  report = std::move(told);
  const TriedBudget tried{.whole_bytes = plan.memory.arena_bytes,
                          .recomputed = options.recompute_to_fit && backend.computes_again(),
                          .may_recompute = backend.computes_again()};
  if (budget && tried.recomputed && tried.whole_bytes > *budget) {
    plan = fit_to_budget(plan, *budget, settings, backend.kernels(), options, report);
  }
  if (budget) require_within(plan.report, *budget, tried, declared.graph.name());
  report.arena_bytes = std::max(report.arena_bytes, plan.report.arena_bytes);
  report.plans.push_back(plan.report);
  return std::move(plan);
}

// ---- all plans, and what runs them ---------------------------------------------------------

/// The one that says how all train: the first that does, if any.
const ir::Graph& leading_graph(std::span<const GraphInModes> declared) {
  for (const GraphInModes& part : declared) {
    if (part.in(Mode::train)) return *part.graph;
  }
  return *declared[0].graph;
}

/// True for a graph whose steps train, or assign to a parameter.
bool changes_parameters(const GraphInModes& part) {
  const ir::Graph& graph = *part.graph;
  const auto of_parameter = [&](const Assignment& assignment) {
    return graph.storages()[assignment.storage.index].kind == StorageKind::parameter;
  };
  return (part.in(Mode::train) && !graph.objectives().empty()) ||
         std::ranges::any_of(graph.assignments(), of_parameter);
}

/// Each graph in each of its modes, then with each average in the place of parameters. Plans point
/// at what they are made of, which is added to `graphs`.
EngineInput plan_all(std::span<const GraphInModes> parts, const BatchShapes& shapes,
                     const std::optional<MeanOps>& averages, const Backend& backend,
                     const CompileOptions& options, std::deque<ir::Graph>& graphs, Report& report) {
  EngineInput planned;
  std::map<std::string, Layout> kept;  // as the first plan of a storage keeps it
  const bool parameters_stay = std::ranges::none_of(parts, changes_parameters);
  AveragePaths kept_averages;  // those that are declared, then those of optimizers
  add_averages(leading_graph(parts), kept_averages);
  const auto plan = [&](const ir::Graph& graph, std::size_t shape, Mode mode,
                        const std::string& average) {
    planned.declared.push_back(&graph);
    planned.plans.push_back(plan_within_budget({.graph = graph,
                                                .shape = shape,
                                                .batch = shapes.describe(shape),
                                                .average = average,
                                                .parameters_stay = parameters_stay,
                                                .kept = kept,
                                                .averages = averages},
                                               mode, backend, options, report));
    const ir::Graph& made = planned.plans.back().graph;
    for (const Storage& s : made.storages()) kept.emplace(s.path, s.layout);
    if (mode == Mode::train) add_averages(made, kept_averages);
  };
  for (std::size_t shape = 0; shape < parts.size(); ++shape) {
    const ir::Graph& whole = *parts[shape].graph;
    const ir::Graph& some = graphs.emplace_back(limit_outputs(whole, options.evaluate_outputs));
    for (const Mode mode : parts[shape].modes) {
      plan(mode == Mode::train ? whole : some, shape, mode, "");
    }
  }
  // Last, so that storages are as the plans above have them.
  for (const auto& [name, paths] : kept_averages) {
    for (std::size_t shape = 0; shape < parts.size(); ++shape) {
      for (const Mode mode : parts[shape].modes) {
        if (mode == Mode::train) continue;
        plan(graphs.emplace_back(with_averages(graphs[shape], name, paths)), shape, mode, name);
      }
    }
  }
  return planned;
}

/// `needs` becomes what the plans need, as soon as that is known.
Executable make_executable(std::span<const Graph* const> users, std::span<const GraphInModes> parts,
                           const Target& target, CompileOptions options, Needs& needs) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<const ir::Graph*> declared = graphs_of(parts);
  const std::string& name = declared[0]->name();
  const std::unique_ptr<Backend> backend = target.open(target, options, name);
  require_backend(*backend, parts, options);
  require_memory(name, needs, free_memory_of_process());
  options = complete_options(std::move(options), *backend);
  Report report = begin_report(name, *backend, options);
  // Kernels are timed below: already as they will run.
  std::shared_ptr<SpinLimiter> spin_limiter = limit_spinning(options.threads);

  // Together, before rank 0 makes its plans while others wait for its choices.
  const std::optional<MeanOps> averages = averages_of(leading_graph(parts), options);
  FirstChoices first_choices(options, report);
  const BatchShapes shapes(declared);
  std::deque<ir::Graph> graphs;
  EngineInput planned = plan_all(parts, shapes, averages, *backend, options, graphs, report);
  first_choices.tell();

  // The memory that all plans share.
  std::vector<Storage> storages = storages_of(planned.plans);
  needs = needs_of(declared, storages, planned.plans, *backend);
  require_memory(name, needs, free_memory_of_process());
  auto memory = std::make_unique<Memory>(
      make_memory(declared, std::move(storages), options.seed, options.threads));
  if (options.world) options.world->agree(declared, planned.plans);
  add_sizes(*memory, report);
  DeclaredGraphs tables(users, shapes, planned.plans, *memory);

  // The engine that runs the plans.
  std::unique_ptr<Engine> engine = backend->engine(std::move(planned), *memory, report);
  auto impl = std::make_unique<Executable::Impl>(std::move(tables), options, std::move(report),
                                                 std::move(memory), std::move(engine),
                                                 std::move(spin_limiter), backend->slots());
  if (options.data_parallel) begin_as_first(*options.data_parallel, *impl->memory, impl->storages);
  impl->report.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Executable(std::move(impl));
}

}  // namespace
}  // namespace metronome::executor::compile

namespace metronome {

Executable compile(std::span<const GraphFor> graphs, Target target, CompileOptions options) {
  using namespace executor;
  std::vector<GraphInModes> parts = compile::check_arguments(graphs, target, options);
  options.recompute = compile::recomputed_paths(parts, options.recompute);
  std::vector<const Graph*> users;
  for (const GraphFor& part : graphs) users.push_back(part.graph);
  const std::vector<ir::Graph> own = compile::join_ranks(parts, options);
  compile::take_local_device(target, options);
  if (options.threads == 0) options.threads = at::get_num_threads();
  Needs needs = compile::declared_needs(compile::graphs_of(parts));
  try {
    return compile::make_executable(users, parts, target, options, needs);
  } catch (const std::bad_alloc&) {
    refuse_for_memory(own[0].name(), needs);
  }
}

Executable compile(std::initializer_list<GraphFor> graphs, Target target, CompileOptions options) {
  return compile(std::span(graphs.begin(), graphs.size()), std::move(target), std::move(options));
}

Executable compile(std::span<const Graph* const> graphs, Target target, CompileOptions options) {
  std::vector<GraphFor> all;
  for (const Graph* graph : graphs) all.push_back({graph});
  return compile(std::span<const GraphFor>(all), std::move(target), std::move(options));
}

Executable compile(const Graph& graph, Target target, CompileOptions options) {
  const Graph* const graphs[] = {&graph};
  return compile(std::span(graphs), std::move(target), std::move(options));
}

Executable compile(std::initializer_list<const Graph*> graphs, Target target,
                   CompileOptions options) {
  return compile(std::span(graphs.begin(), graphs.size()), std::move(target), std::move(options));
}

}  // namespace metronome
