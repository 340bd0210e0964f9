#include "graph/passes/prune.h"

#include <algorithm>
#include <vector>

#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"
#include "graph/passes/walk/results.h"

namespace metronome::passes {

namespace {

/// Whether a step assigns to a storage what it holds: a state that is fed itself.
bool keeps(const ir::Graph& graph, const Assignment& assignment) {
  const Read* read = graph.node(assignment.value).op->as<Read>();
  return read != nullptr && read->storage == assignment.storage;
}

}  // namespace

ir::Graph prune(ir::Graph graph, const Settings&) {
  std::vector<Assignment> assignments = graph.assignments();
  std::erase_if(assignments, [&](const Assignment& a) { return keeps(graph, a); });
  if (assignments.size() < graph.assignments().size()) graph.set_assignments(assignments);
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  std::vector<bool> live(count, false);
  const auto mark = [&](ValueId id) {
    if (id.present()) live[id.node] = true;
  };
  for_each_result(graph, mark);
  for (std::int32_t i = count - 1; i >= 0; --i) {
    if (graph.nodes()[i].op->effects()) live[i] = true;
    if (!live[i]) continue;
    for (const ValueId input : graph.nodes()[i].inputs) mark(input);
    mark(graph.nodes()[i].guard);
  }
  if (std::ranges::find(live, false) == live.end()) return graph;
  Copier copier(graph);
  for (std::int32_t i = 0; i < count; ++i) {
    if (live[i]) copier.copy(i);
  }
  return copier.finish();
}

}  // namespace metronome::passes
