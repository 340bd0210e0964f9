#include "ops/fill.h"

#include "graph/error.h"
#include "graph/op_model.h"
#include "graph/state.h"
#include "graph/structural.h"
#include "ops/expand.h"

namespace metronome {

Value fill(GraphState* graph, double number, Type type, Line line) {
  if (graph == nullptr) throw InternalError("a number cannot become a value without a graph");
  Scope& scope = graph->scopes.back();
  Node node;
  node.op = make_op(Fill{number, type});
  node.types = {std::move(type)};
  node.path = join_path(scope.nodes, unique_name(scope, Fill::name));
  node.line = graph->effective(line);
  graph->nodes.push_back(std::move(node));
  return Value(graph, ValueId{static_cast<std::int32_t>(graph->nodes.size()) - 1, 0});
}

std::optional<double> number_of(const Value& value) {
  if (!value || value.poisoned()) return std::nullopt;
  const Node* node = &value.node();
  if (node->op->as<Expand>() != nullptr) node = &value.graph()->nodes[node->inputs[0].node];
  if (const Fill* fill = node->op->as<Fill>()) return fill->number;
  return std::nullopt;
}

}  // namespace metronome
