#include "ops/fill.h"

#include <cstring>

#include "graph/error.h"
#include "graph/op_model.h"
#include "graph/state.h"
#include "graph/structural.h"
#include "ops/expand.h"

namespace metronome {
namespace {

template <class T>
double first_of(const Constant& constant) {
  T first;
  std::memcpy(&first, constant.bytes.data(), sizeof(T));
  return static_cast<double>(first);
}

}  // namespace

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
  const Constant* constant = node->op->as<Constant>();
  if (constant == nullptr || constant->type.numel() != 1) return std::nullopt;
  switch (constant->type.element) {
    case f32:
      return first_of<float>(*constant);
    case f64:
      return first_of<double>(*constant);
    case i32:
      return first_of<std::int32_t>(*constant);
    case i64:
      return first_of<std::int64_t>(*constant);
    case bool_:
      return first_of<std::uint8_t>(*constant);
  }
  return std::nullopt;
}

}  // namespace metronome
