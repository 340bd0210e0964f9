#include "graph/passes/loosen.h"

#include <algorithm>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/passes/copier.h"

namespace metronome::passes {
namespace {

/// True where `reader` can be computed together with an elementwise op that makes its operand.
bool fuses_with(const ir::Graph& graph, const Node& reader, std::size_t operand,
                const Settings& settings) {
  if (!settings.fuses(*reader.op)) return false;
  const Types types = graph.operands(reader);
  const auto fusion = reader.op->fusion(types);
  if (!fusion) return false;
  if (fusion->kind == Fusion::Kind::map) return reader.types[0].shape == types[operand].shape;
  const std::vector<int>& streamed = fusion->streamed_inputs;
  return std::find(streamed.begin(), streamed.end(), static_cast<int>(operand)) != streamed.end();
}

/// [node] Whether one of its readers under the same guard fuses with an elementwise op.
std::vector<bool> found_by_readers(const ir::Graph& graph, const Settings& settings) {
  std::vector<bool> found(graph.nodes().size());
  for (const Node& reader : graph.nodes()) {
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      const std::int32_t made = reader.inputs[i].node;
      if (found[made] || reader.guard != graph.nodes()[made].guard) continue;
      found[made] = fuses_with(graph, reader, i, settings);
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
