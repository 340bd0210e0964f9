#include "graph/passes/loosen.h"

#include <algorithm>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/passes/copier.h"

namespace metronome::passes {
namespace {

/// Operands of a node: positions among its inputs.
using Operands = std::vector<std::size_t>;

/// Those that an elementwise op can make in the kernel that computes `reader`.
Operands fused_operands(const ir::Graph& graph, const Node& reader, const Settings& settings) {
  if (!settings.fuses(*reader.op)) return {};
  const Types types = graph.operands(reader);
  const auto fusion = reader.op->fusion(types);
  if (!fusion) return {};
  Operands result;
  const std::vector<int>& streamed = fusion->streamed_inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool fused =
        fusion->kind == Fusion::Kind::map
            ? reader.types[0].shape == types[i].shape
            : std::find(streamed.begin(), streamed.end(), static_cast<int>(i)) != streamed.end();
    if (fused) result.push_back(i);
  }
  return result;
}

/// [node] Whether one of its readers under the same guard fuses with an elementwise op.
std::vector<bool> found_by_readers(const ir::Graph& graph, const Settings& settings) {
  std::vector<bool> found(graph.nodes().size());
  for (const Node& reader : graph.nodes()) {
    for (const std::size_t i : fused_operands(graph, reader, settings)) {
      const std::int32_t made = reader.inputs[i].node;
      if (reader.guard == graph.nodes()[made].guard) found[made] = true;
    }
  }
  return found;
}

}  // namespace

ir::Graph loosen(ir::Graph graph, const Settings& settings) {
  if (!settings.fuses) return graph;
  const std::vector<bool> found = found_by_readers(graph, settings);
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    if (!found[i] || node.inputs.empty()) {
      copier.copy(i);
      continue;
    }
    PassScope scope(copier.emitter, node.path, node.line, copier.guard_of(node),
                    copier.waits_of(node));
    const Value value = node.op->loosen(copier.inputs_of(node));
    if (!value.present()) {
      copier.copy(i);
      continue;
    }
    copier.replace(i, {value});
  }
  return copier.finish();
}

}  // namespace metronome::passes
