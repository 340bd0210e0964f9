#include "graph/passes/for_mode.h"

#include "graph/passes/copier.h"
#include "graph/state.h"
#include "graph/structural.h"

namespace metronome {

Graph for_mode(const Graph& graph, const Settings& settings) {
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    Values form;
    if (settings.mode == Mode::evaluate) {
      if (node.op->as<GradientOf>() != nullptr) continue;
      PassScope scope(copier.to, node.path, node.line, copier.guard_of(node));
      form = node.op->evaluate(copier.inputs_of(node));
    }
    if (form.empty()) {
      copier.copy(i);
    } else {
      copier.replace(i, form);
    }
  }
  Graph result = copier.finish();
  if (settings.mode == Mode::evaluate) result.set_assignments({});
  return result;
}

}  // namespace metronome
