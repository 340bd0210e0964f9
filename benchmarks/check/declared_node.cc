#include "benchmarks/check/declared_node.h"

#include <cstddef>
#include <cstdint>

#include "executor/libtorch/convert.h"
#include "graph/compounds/channels_last.h"
#include "graph/ir/structural.h"
#include "graph/rules/fusion.h"

namespace metronome::benchmarks {
namespace {

at::Tensor in_order(const at::Tensor& stored, const Layout& layout) {
  if (layout.plain() || layout.blocked >= 0) return stored;
  std::vector<std::int64_t> places;
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(stored.dim()); ++d) {
    places.push_back(layout.place_of(d));
  }
  return stored.permute(places).contiguous();
}

at::Tensor in_order(const at::Tensor& stored) {
  return in_order(stored, channels_last(static_cast<std::size_t>(stored.dim())));
}

/// The layout of a value, by the ops that made it.
Layout layout_of(const ir::Graph& graph, ValueId value) {
  const Node& node = graph.node(value);
  if (node.op->as<ChannelsLast>() != nullptr) return channels_last(graph.type(value).rank());
  if (const Relayout* relayout = node.op->as<Relayout>()) return relayout->to;
  if (const Read* read = node.op->as<Read>()) return graph.storage(read->storage).layout;
  const auto fusion = node.op->ask<FusionRule>(graph.operands(node));
  if (!fusion || fusion->kind != Fusion::Kind::map) return {};
  for (const ValueId operand : node.inputs) {
    if (graph.type(operand).shape == graph.type(value).shape) return layout_of(graph, operand);
  }
  return {};
}

}  // namespace

DeclaredNode declared_node(const ObservedNode& seen) {
  DeclaredNode declared{seen.node(), {}, {}};
  const auto* last = declared.node.op->as<ChannelsLast>();
  const auto tensor = [&](const Tensor& stored) {
    if (stored.data == nullptr && stored.numel() > 0) return at::Tensor();
    const at::Tensor x = to_torch(stored);
    return last != nullptr ? in_order(x) : x;
  };
  for (const Tensor& operand : seen.operands) declared.operands.push_back(tensor(operand));
  for (const Tensor& result : seen.results) declared.results.push_back(tensor(result));
  if (last != nullptr) {
    declared.node.types = declared_types(seen.node().types);
    declared.node.op = OpPtr(last->op);
  }
  return declared;
}

std::vector<at::Tensor> declared_operands(const ObservedNode& seen) {
  std::vector<at::Tensor> operands;
  for (std::size_t i = 0; i < seen.operands.size(); ++i) {
    operands.push_back(
        in_order(to_torch(seen.operands[i]), layout_of(seen.graph, seen.node().inputs[i])));
  }
  return operands;
}

at::Tensor declared_tensor(const at::Tensor& stored, const Storage& storage) {
  return in_order(stored, storage.layout);
}

}  // namespace metronome::benchmarks
