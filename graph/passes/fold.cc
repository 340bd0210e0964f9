#include "graph/passes/fold.h"

#include <algorithm>

#include "graph/builder/state.h"
#include "graph/ir/structural.h"
#include "graph/passes/copier.h"

namespace metronome::passes {
namespace {

/// The elements of a small constant, or nothing.
std::optional<Bytes> known(const Node& node, const Settings& settings) {
  if (const Constant* constant = node.op->as<Constant>()) return constant->bytes;
  if (node.op->as<Fill>() == nullptr || node.types[0].numel() != 1) return std::nullopt;
  return settings.evaluate(*node.op, {}, {})[0];
}

/// The node's one result where it depends on constants alone and is no larger than they are.
std::optional<Bytes> evaluated(const Graph& graph, const Node& node, const Settings& settings) {
  if (!settings.evaluate || node.inputs.empty() || node.types.size() != 1) return std::nullopt;
  if (node.guard.present() || node.op->as<Read>() != nullptr) return std::nullopt;
  Types types;
  std::vector<Bytes> inputs;
  std::size_t operand_bytes = 0;
  for (const ValueId id : node.inputs) {
    if (id.output != 0) return std::nullopt;
    auto bytes = known(graph.node(id), settings);
    if (!bytes) return std::nullopt;
    types.push_back(graph.type(id));
    operand_bytes += bytes->size();
    inputs.push_back(std::move(*bytes));
  }
  if (node.types[0].bytes() > operand_bytes) return std::nullopt;
  if (node.op->alias(types)) return std::nullopt;
  auto results = settings.evaluate(*node.op, types, inputs);
  if (results.empty()) return std::nullopt;
  return std::move(results[0]);
}

}  // namespace

Graph fold(const Graph& graph, const Settings& settings) {
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    PassScope scope(copier.to, node.path, node.line, copier.guard_of(node));
    const Values inputs = copier.inputs_of(node);
    const Value simpler = inputs.empty() ? Value() : node.op->fold(inputs);
    if (simpler.present()) {
      copier.replace(i, {simpler});
      continue;
    }
    copier.copy(i);
    Node& made = copier.to.state().nodes.back();
    if (auto bytes = evaluated(copier.to, made, settings)) {
      made.op = make_op(Constant{std::move(*bytes), made.types[0]});
      made.inputs.clear();
    }
  }
  return copier.finish();
}

}  // namespace metronome::passes
