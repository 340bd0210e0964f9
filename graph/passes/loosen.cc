#include "graph/passes/loosen.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/passes/walk/copier.h"
#include "graph/passes/walk/results.h"
#include "graph/rules/fusion.h"
#include "graph/rules/loosen.h"
#include "graph/rules/random_key.h"

namespace metronome::passes {
namespace {

/// Operands of a node: positions among its inputs.
using Operands = std::vector<std::size_t>;

/// Those that an elementwise op can make in the kernel that computes `reader`.
Operands fused_operands(const ir::Graph& graph, const Node& reader, const Settings& settings) {
  if (!settings.fuse.takes(*reader.op)) return {};
  const Types types = graph.operands(reader);
  const auto fusion = reader.op->ask<FusionRule>(types);
  if (!fusion) return {};
  Operands result;
  const std::vector<int>& streamed = fusion->streamed_inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool fused =
        fusion->kind == Fusion::Kind::concat ||
        (fusion->kind == Fusion::Kind::map
             ? reader.types[0].shape == types[i].shape
             : std::find(streamed.begin(), streamed.end(), static_cast<int>(i)) != streamed.end());
    if (fused) result.push_back(i);
  }
  return result;
}

/// Maps whose slices become maps of slices.
class SlicedMaps {
 public:
  SlicedMaps(const ir::Graph& graph, const Settings& settings)
      : graph_(graph), settings_(settings), slices_(graph.nodes().size()) {
    std::vector<bool> whole(graph.nodes().size());
    for_each_result(graph, [&](ValueId id) { whole[id.node] = true; });
    for (const Node& node : graph.nodes()) {
      const auto fusion = slice_of(node);
      if (node.guard.present()) whole[node.guard.node] = true;
      for (const std::int32_t waited : node.waits_for) whole[waited] = true;
      for (const ValueId id : node.inputs) {
        if (fusion && node.guard == graph.node(id).guard) {
          slices_[id.node].push_back(*fusion);
        } else {
          whole[id.node] = true;
        }
      }
    }
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      if (whole[i] || !splits(graph.nodes()[i], slices_[i])) slices_[i].clear();
    }
  }

  /// The map is not made: only what `of_slice` makes of it is read.
  bool split(std::int32_t node) const { return !slices_[node].empty(); }
  /// The slice of a map that is split; absent for every other node.
  Value of_slice(const Node& slice, Copier& copier) const {
    if (slice.inputs.size() != 1 || !split(slice.inputs[0].node)) return {};
    const Node& map = graph_.node(slice.inputs[0]);
    PassScope scope(copier.emitter, slice.path, slice.line, copier.guard_of(slice),
                    copier.waits_of(slice));
    Values operands;
    for (const Value& whole : copier.inputs_of(map)) {
      operands.push_back(apply(slice.op, {&whole, 1}, Line{})[0]);
    }
    return apply(map.op, operands, Line{})[0];
  }

 private:
  struct Range {
    std::int64_t axis, begin, end;
  };

  std::optional<Range> slice_of(const Node& node) const {
    const auto fusion = node.op->ask<FusionRule>(graph_.operands(node));
    if (!fusion || fusion->kind != Fusion::Kind::slice || !settings_.fuse.takes(*node.op)) {
      return std::nullopt;
    }
    const std::int64_t size = node.types[0].shape[fusion->axis];
    return Range{fusion->axis, fusion->begin, fusion->begin + size};
  }

  /// Random numbers depend on an element's place.
  bool splits(const Node& node, std::vector<Range> slices) const {
    if (slices.empty() || node.types.size() != 1 || !node.waits_for.empty() ||
        !settings_.fuse.takes(*node.op) || node.op->has_rule<KeyRule>()) {
      return false;
    }
    const Types types = graph_.operands(node);
    const auto fusion = node.op->ask<FusionRule>(types);
    const auto whole = [&](const Type& type) { return type.shape == node.types[0].shape; };
    if (!fusion || fusion->kind != Fusion::Kind::map || !std::ranges::all_of(types, whole)) {
      return false;
    }
    std::ranges::sort(slices, {}, &Range::begin);
    for (std::size_t i = 1; i < slices.size(); ++i) {
      if (slices[i].axis != slices[0].axis || slices[i].begin < slices[i - 1].end) return false;
    }
    return true;
  }

  const ir::Graph& graph_;
  const Settings& settings_;
  std::vector<std::vector<Range>> slices_;  // [node] all that is read of it, where it is split
};

/// [node] Whether one of its readers under the same guard fuses with an elementwise op. Readers
/// that are split do not count: they read slices, which lie in memory.
std::vector<bool> fused_by_readers(const ir::Graph& graph, const SlicedMaps& maps,
                                   const Settings& settings) {
  std::vector<bool> found(graph.nodes().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& reader = graph.nodes()[n];
    if (maps.split(static_cast<std::int32_t>(n))) continue;
    for (const std::size_t i : fused_operands(graph, reader, settings)) {
      const std::int32_t made = reader.inputs[i].node;
      if (reader.guard == graph.nodes()[made].guard) found[made] = true;
    }
  }
  return found;
}

}  // namespace

ir::Graph loosen(ir::Graph graph, const Settings& settings) {
  if (!settings.fuse.takes) return graph;
  const SlicedMaps maps(graph, settings);
  const std::vector<bool> found = fused_by_readers(graph, maps, settings);
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    if (maps.split(i)) continue;
    if (const Value sliced = maps.of_slice(node, copier); sliced.present()) {
      copier.replace(i, {sliced});
      continue;
    }
    if (!found[i] || node.inputs.empty() || !settings.fuse.takes(*node.op)) {
      copier.copy(i);
      continue;
    }
    PassScope scope(copier.emitter, node.path, node.line, copier.guard_of(node),
                    copier.waits_of(node));
    const Value value = node.op->ask<LoosenRule>(copier.inputs_of(node));
    if (!value.present()) {
      copier.copy(i);
      continue;
    }
    copier.replace(i, {value});
  }
  return copier.finish();
}

}  // namespace metronome::passes
