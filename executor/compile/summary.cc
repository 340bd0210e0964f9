#include "executor/compile/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "executor/engine/plan_nodes.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/cpu/table.h"

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

std::vector<HeldValue> describe_holders(const ir::Graph& graph,
                                        const std::vector<plan::Holder>& holders) {
  std::vector<HeldValue> values;
  for (const plan::Holder& h : holders) {
    const Node& node = graph.node(h.value);
    values.push_back({to_string(graph.type(h.value)), h.bytes, node.path, to_string(node.line)});
  }
  return values;
}

}  // namespace

Report begin_report(const std::string& graph, const Backend& backend,
                    const CompileOptions& options) {
  Report report;
  report.graph = graph;
  report.target = backend.name();
  report.isa = cpu_table().isa();
  report.threads = options.threads;
  return report;
}

void summarize(Plan& plan) {
  PlanReport& report = plan.report;
  report.mode = plan.mode;
  report.average = plan.average;
  report.kernels = kernels_of(plan.graph);
  report.arena_bytes = plan.memory.arena_bytes;
  report.lower_bound = plan.memory.lower_bound;
  report.least_bytes = plan.memory.least_bytes;
  report.unshared_bytes = unshared_bytes(plan.graph);
  report.relayouts =
      static_cast<std::size_t>(std::ranges::count_if(plan.graph.nodes(), [&](const Node& n) {
        return n.op->as<Relayout>() != nullptr && has_kernel(plan.graph, n);
      }));
  report.copies = static_cast<std::size_t>(std::ranges::count(plan.schedule.in_place, false));
  report.held = describe_holders(plan.graph, plan.memory.holders);
}

void add_sizes(const Memory& memory, Report& report) {
  for (const Storage& s : memory.storages) {
    report.storage_bytes += s.stored_type().bytes();
    if (s.kind == StorageKind::parameter) {
      report.parameter_count += static_cast<std::size_t>(s.type.numel());
    }
  }
}

void require_within(const PlanReport& plan, std::size_t budget, const TriedBudget& tried,
                    const std::string& graph) {
  if (plan.arena_bytes <= budget) return;
  std::string how = plan.average.empty() ? "" : fmt::format(" with \"{}\"", plan.average);
  if (!plan.batch.empty()) how += fmt::format(" at batch shape {}", plan.batch);
  std::string smallest = fmt::format("that is feasible is {}", plan.arena_bytes);
  if (tried.recomputed) {
    smallest = fmt::format("found, with values computed again, is {}", plan.arena_bytes);
  } else if (tried.may_recompute) {
    smallest += ", or less with CompileOptions::recompute_to_fit";
  }
  // Products of many steps need all their operands at once.
  const bool gathers =
      std::ranges::find(plan.passes, "gather", &PassReport::name) != plan.passes.end();
  if (gathers) smallest += ", or less with METRONOME_WITHOUT=gather, which rounds otherwise";
  throw RunError(fmt::format(
      "graph \"{}\": the plan to {}{} needs an arena of {} bytes, but the budget is {}; "
      "the smallest {}; largest at its fullest moment are\n  {}",
      graph, name_of(plan.mode), how, tried.whole_bytes, budget, smallest,
      fmt::join(plan.largest(), "\n  ")));
}

}  // namespace metronome::executor::compile
