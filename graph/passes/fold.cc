#include "graph/passes/fold.h"

#include <algorithm>

#include "graph/emit/emitter.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"
#include "graph/rules/alias.h"
#include "graph/rules/fold.h"

namespace metronome::passes {
namespace {

/// The elements of a small constant, or nothing.
std::optional<Bytes> constant_bytes(const Node& node, const Settings& settings) {
  if (const Constant* constant = node.op->as<Constant>()) return constant->bytes;
  if (node.op->as<Fill>() == nullptr || node.types[0].numel() != 1) return std::nullopt;
  return settings.evaluate(*node.op, {}, {})[0];
}

/// A node's one result where it depends on constants alone and is no larger than they are.
std::optional<Bytes> evaluate_node(const Copier& copier, const Node& node,
                                   const Settings& settings) {
  if (!settings.evaluate || node.inputs.empty() || node.types.size() != 1) return std::nullopt;
  if (node.guard.present() || node.op->as<Read>() != nullptr) return std::nullopt;
  // Regions read off the ops of guards which of them imply or exclude each other.
  if (node.op->as<Guard>() != nullptr) return std::nullopt;
  Types types;
  std::vector<Bytes> inputs;
  std::size_t operand_bytes = 0;
  for (const ValueId input : node.inputs) {
    const ValueId id = copier.at(input);
    if (id.output != 0) return std::nullopt;
    auto bytes = constant_bytes(copier.to.node(id), settings);
    if (!bytes) return std::nullopt;
    types.push_back(copier.to.type(id));
    operand_bytes += bytes->size();
    inputs.push_back(std::move(*bytes));
  }
  if (node.types[0].bytes() > operand_bytes) return std::nullopt;
  if (node.op->ask<AliasRule>(types)) return std::nullopt;
  auto results = settings.evaluate(*node.op, types, inputs);
  if (results.empty()) return std::nullopt;
  return std::move(results[0]);
}

}  // namespace

ir::Graph fold(ir::Graph graph, const Settings& settings) {
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    PassScope scope(copier.emitter, node.path, node.line, copier.guard_of(node));
    const Values inputs = copier.inputs_of(node);
    if (node.op->effects() || !node.waits_for.empty()) {
      copier.copy(i);
      continue;
    }
    const Value simpler = inputs.empty() ? Value() : node.op->ask<FoldRule>(inputs);
    if (simpler.present()) {
      copier.replace(i, {simpler});
      continue;
    }
    if (auto bytes = evaluate_node(copier, node, settings)) {
      Node constant = node;
      constant.op = make_op(Constant{std::move(*bytes), node.types[0]});
      constant.inputs.clear();
      copier.append(i, std::move(constant));
    } else {
      copier.copy(i);
    }
  }
  return copier.finish();
}

}  // namespace metronome::passes
