#include "graph/passes/materialize.h"

#include <map>
#include <set>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/structural.h"

namespace metronome::passes {
namespace {

/// The value whose bytes `id` is or views.
ValueId root_of(const ir::Graph& graph, ValueId id) {
  while (true) {
    const Node& node = graph.node(id);
    const auto alias = graph.alias(node);
    if (!alias || alias->output != id.output) return id;
    id = node.inputs[alias->input];
  }
}

bool is_memory(const ir::Graph& graph, ValueId root) {
  const Op& op = *graph.node(root).op;
  return op.as<Input>() != nullptr || op.as<Read>() != nullptr;
}

}  // namespace

ir::Graph materialize(ir::Graph graph, const Settings&) {
  Emitter emitter(graph);

  const auto copied = [&](ValueId value) {
    const Node node = graph.node(value);
    PassScope scope(emitter, node.path, node.line);
    return apply(Copy{}, {emitter.value(value)}, node.line).id();
  };
  std::map<ValueId, ValueId> copies;  // readables may share one
  for (std::size_t r = 0; r < graph.readables().size(); ++r) {
    const ValueId value = graph.readables()[r].value;
    if (!value.present() || !is_memory(graph, root_of(graph, value))) continue;
    if (!copies.contains(value)) copies[value] = copied(value);
    graph.set_readable(r, copies[value]);
  }
  std::set<ValueId> roots;
  std::vector<Assignment> assignments = graph.assignments();
  for (Assignment& a : assignments) {
    const ValueId root = root_of(graph, a.value);
    if (is_memory(graph, root) || !roots.insert(root).second) a.value = copied(a.value);
  }
  graph.set_assignments(std::move(assignments));
  return graph;
}

}  // namespace metronome::passes
