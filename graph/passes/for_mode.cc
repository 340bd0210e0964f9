#include "graph/passes/for_mode.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"
#include "graph/rules/mode.h"

namespace metronome::passes {

namespace {

/// Throws what ops miss to be trained: all in one report, one for each line of the user's.
void require_training(const ir::Graph& graph) {
  std::optional<ir::Graph> copy;  // to record mistakes in
  std::optional<Emitter> report;
  std::set<std::string> lines;
  for (const Node& node : graph.nodes()) {
    const Types types = graph.operands(node);
    try {
      node.op->ask<TrainingRule>(types);
    } catch (const Requirement& requirement) {
      if (!lines.insert(to_string(node.line)).second) continue;
      if (!report) {
        copy = graph;
        report.emplace(*copy);
      }
      Values operands;
      for (const ValueId id : node.inputs) operands.push_back(report->value(id));
      mistake(&*report, node.line,
              fmt::format("{} \"{}\" cannot be trained", node.op->name(), node.path), operands,
              requirement);
    }
  }
  if (report) throw GraphError(report->mistakes);
}

/// Returns the assignments of an evaluation.
std::vector<Assignment> assignments_of_evaluation(const ir::Graph& graph, Mode mode) {
  std::vector<Assignment> kept;
  for (const Assignment& a : graph.assignments()) {
    const StorageKind kind = graph.storage(a.storage).kind;
    const bool moves = kind == StorageKind::state || kind == StorageKind::counter;
    if (mode == Mode::advance && moves) kept.push_back(a);
  }
  return kept;
}

}  // namespace

ir::Graph for_mode(ir::Graph graph, const Settings& settings) {
  if (settings.mode == Mode::train) {
    require_training(graph);
    return graph;
  }
  graph.set_assignments(assignments_of_evaluation(graph, settings.mode));
  for (std::size_t k = 0; k < graph.objectives().size(); ++k) {
    graph.set_when(k, {});
    graph.set_weight(k, {});
  }
  Copier copier(graph);
  const std::vector<bool> by_training = ir::made_by_training(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    if (by_training[i]) continue;
    if (const auto* updated = node.op->as<ReadUpdated>()) {
      copier.replace({i, 0}, copier.to.read(updated->storage));
      continue;
    }
    PassScope scope(copier.emitter, node.path, node.line, copier.guard_of(node),
                    copier.waits_of(node));
    const Values form = node.op->ask<EvaluateRule>(copier.inputs_of(node));
    if (form.empty()) {
      copier.copy(i);
    } else {
      copier.replace(i, form);
    }
  }
  return copier.finish();
}

}  // namespace metronome::passes
