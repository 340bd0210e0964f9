#include "executor/compile/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/compile/compile_checks.h"
#include "executor/compile/fold_constants.h"
#include "executor/compile/keep_whole.h"
#include "executor/compile/select.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/ranks.h"
#include "graph/check/check_plan.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/plan/planner.h"

namespace metronome::executor::compile {
namespace {

std::size_t unshared_bytes(const ir::Graph& graph) {
  std::size_t bytes = 0;
  for (const Node& node : graph.nodes()) {
    if (!has_kernel(graph, node)) continue;
    for (const Type& type : node.types) bytes += type.bytes();
  }
  return bytes;
}

std::vector<HeldValue> described(const ir::Graph& graph, const std::vector<plan::Holder>& holders) {
  std::vector<HeldValue> values;
  for (const plan::Holder& h : holders) {
    const Node& node = graph.node(h.value);
    values.push_back({to_string(graph.type(h.value)), h.bytes, node.path, to_string(node.line)});
  }
  return values;
}

void require_within(const PlanReport& plan, std::size_t budget, const std::string& graph) {
  if (plan.arena_bytes <= budget) return;
  std::string how = plan.average.empty() ? "" : fmt::format(" with \"{}\"", plan.average);
  if (!plan.batch.empty()) how += fmt::format(" at batch shape {}", plan.batch);
  throw RunError(fmt::format(
      "graph \"{}\": the plan to {}{} needs an arena of {} bytes, but the budget is "
      "{}; the smallest that is feasible is {}; largest at its fullest moment are\n  {}",
      graph, name_of(plan.mode), how, plan.arena_bytes, budget, plan.arena_bytes,
      fmt::join(plan.largest(), "\n  ")));
}

}  // namespace

std::vector<Settings> settings_of(const Backend& backend, Mode mode) {
  std::vector<Settings> all = backend.settings(mode);
  for (Settings& settings : all) settings.evaluate = evaluate_constants;
  return all;
}

Plan make_plan(const Declared& declared, Mode mode, const Backend& backend,
               const CompileOptions& options, Report& report) {
  std::vector<Plan> plans;
  std::vector<Report> reports;
  std::vector<std::size_t> arenas;
  for (const Settings& settings : settings_of(backend, mode)) {
    reports.push_back(report);
    plans.push_back(make_plan(declared, settings, backend.kernels(), options, reports.back()));
    arenas.push_back(plans.back().memory.arena_bytes);
    // What changes nothing now changes nothing after it.
    const std::size_t made = plans.size();
    if (made > 1 && plans[made - 1].graph.nodes().size() == plans[made - 2].graph.nodes().size()) {
      break;
    }
    // The first is kept whatever the others need, if it is kept beside one that needs nothing.
    const std::size_t beside_nothing[] = {arenas[0], 0};
    if (made == 1 && backend.choose(beside_nothing, options.memory_budget) == 0) break;
  }
  const std::size_t chosen = backend.choose(arenas, options.memory_budget);
  Plan& plan = plans[chosen];
  report = std::move(reports[chosen]);
  if (options.memory_budget) {
    require_within(plan.report, *options.memory_budget, declared.graph.name());
  }
  report.arena_bytes = std::max(report.arena_bytes, plan.report.arena_bytes);
  report.plans.push_back(plan.report);
  return std::move(plan);
}

Plan make_plan(const Declared& declared, const Settings& settings, const Kernels& kernels,
               const CompileOptions& options, Report& report) {
  PlanReport summary;
  summary.mode = settings.mode;
  summary.batch = declared.batch;
  summary.average = declared.average;
  KeepWhole keep_whole(kernels, settings, options, report);
  Settings complete = settings;
  complete.kept = declared.kept;
  complete.averages = declared.averages;
  if (options.data_parallel) complete.rank = options.data_parallel->rank();
  complete.keeps = [&](const OpPtr& op, std::span<const Type> types) {
    return keep_whole(op, types);
  };
  ir::Graph graph = run_passes(declared, complete, summary, report);
  require_kernels(graph, kernels, options.ops, report.target);
  if (const auto room = kernels.room()) require_room(graph.name(), biggest_value(graph), room);
  std::vector<Candidate> choices = select(graph, kernels, options, report);
  std::vector<std::size_t> scratch_bytes;
  for (const Candidate& choice : choices) scratch_bytes.push_back(choice.scratch_bytes);
  auto [order, memory] = plan::plan_step(graph, scratch_bytes, settings);
  if (const auto wrong = check::check_plan(graph, order, scratch_bytes, memory, settings)) {
    throw InternalError(fmt::format("the memory plan of \"{}\": {}", graph.name(), *wrong));
  }

  summary.kernels = kernels_of(graph);
  summary.arena_bytes = memory.arena_bytes;
  summary.lower_bound = memory.lower_bound;
  summary.unshared_bytes = unshared_bytes(graph);
  summary.relayouts = static_cast<std::size_t>(
      std::ranges::count_if(graph.nodes(), [](const Node& n) { return n.op->as<Relayout>(); }));
  summary.copies =
      static_cast<std::size_t>(std::count(order.in_place.begin(), order.in_place.end(), false));
  summary.held = described(graph, memory.holders);
  return {settings.mode,      declared.shape,   declared.average,         std::move(graph),
          std::move(choices), std::move(order), std::move(scratch_bytes), std::move(memory),
          std::move(summary)};
}

}  // namespace metronome::executor::compile
