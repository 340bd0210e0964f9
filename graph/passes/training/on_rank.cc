#include "graph/passes/training/on_rank.h"

#include <utility>
#include <vector>

#include "graph/passes/walk/copier.h"
#include "graph/rules/on_rank.h"

namespace metronome::passes {

ir::Graph on_rank(ir::Graph graph, const Settings& settings) {
  if (settings.rank == 0) return graph;
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    Node node = graph.nodes()[i];
    OpPtr own = node.op->ask<OnRankRule>(graph.operands(node), settings.rank);
    if (own == nullptr) {
      copier.copy(i);
      continue;
    }
    node.op = std::move(own);
    copier.append(i, std::move(node));
  }
  return copier.finish();
}

}  // namespace metronome::passes
