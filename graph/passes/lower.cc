#include "graph/passes/lower.h"

#include <algorithm>

#include "graph/emit/emitter.h"
#include "graph/passes/walk/copier.h"
#include "graph/rules/lower.h"

namespace metronome::passes {
namespace {

bool expands(const ir::Graph& graph, const Node& node, const Settings& settings) {
  if (!node.op->has_rule<LowerRule>()) return false;
  const Types types = graph.operands(node);
  return !(settings.keeps && settings.keeps(node.op, types));
}

ir::Graph expand_once(const ir::Graph& graph, const Settings& settings) {
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    if (!expands(graph, node, settings)) {
      copier.copy(i);
      continue;
    }
    PassScope scope(copier.emitter, node.path, node.line, copier.guard_of(node),
                    copier.waits_of(node));
    copier.replace(i, node.op->ask<LowerRule>(copier.inputs_of(node)));
  }
  return copier.finish();
}

}  // namespace

ir::Graph lower(ir::Graph graph, const Settings& settings) {
  while (std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Node& n) { return expands(graph, n, settings); })) {
    graph = expand_once(graph, settings);  // again where a composite is made of composites
  }
  return graph;
}

}  // namespace metronome::passes
