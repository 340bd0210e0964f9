// One walk over the old graph writes the new one. Each old value has versions in the new graph,
// each in a layout; the first is the one in which it is made.
//
//   storage_layouts   before the walk: those decided already, parameters, moments, averages
//   choose            a node's layouts: as its op wants, else as the first operand that pays
//   append            takes each operand in its layout, from `at`, and notes the results
//   at                the version in a layout; a missing one is made by a relayout and kept
//   finish            losses and readables plain, assignments as their storage is
//
// `at` alone makes relayouts, so a value is copied into a layout at most once. The copy runs under
// the guard of what it copies, so every later reader may read it.
#include "graph/passes/lay_out.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/compounds/channels_last.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "graph/rules/channels_last.h"
#include "graph/rules/fusion.h"
#include "graph/rules/lay_out.h"
#include "graph/rules/random_key.h"

namespace metronome::passes {
namespace {

/// An op that maps elements, over stored tensors: the same op, element by element.
std::optional<LaidOutOp> lay_out_map(const OpPtr& op, const Types& types, const Layout& layout) {
  const auto fusion = op->ask<FusionRule>(types);
  // Random numbers depend on an element's place.
  if (!fusion || fusion->kind != Fusion::Kind::map || op->has_rule<KeyRule>()) return std::nullopt;
  const Types results = op->infer(types);
  if (results.size() != 1) return std::nullopt;
  LaidOutOp laid{op, {}, {layout}};
  for (const Type& type : types) {
    const auto own = type.shape == results[0].shape
                         ? layout
                         : broadcast_layout(layout, results[0].shape, type.shape);
    if (!own) return std::nullopt;
    laid.operands.push_back(*own);
  }
  return laid;
}

std::optional<LaidOutOp> lay_out_op(const OpPtr& op, const Types& types, const Layout& layout,
                                    const LayoutSettings& settings) {
  if (op->has_rule<LayoutRule>()) return op->ask<LayoutRule>(types, layout);
  if (op->ask<ChannelsLastRule>()) {
    if (settings.channels_last && !settings.channels_last(*op)) return std::nullopt;
    return lay_out_channels_last(op, types, layout);
  }
  return lay_out_map(op, types, layout);
}

/// The layouts of storages: those that are decided already, and of parameters what ops want, with
/// the moments that are updated with them.
std::map<StorageId, Layout> storage_layouts(const ir::Graph& graph, const Settings& settings) {
  std::map<StorageId, Layout> layouts;
  const auto free = [&](StorageId id) {
    return !layouts.contains(id) && !settings.layouts.kept.contains(graph.storage(id).path);
  };
  for (std::size_t i = 0; i < graph.storages().size(); ++i) {
    const auto found = settings.layouts.kept.find(graph.storages()[i].path);
    if (found != settings.layouts.kept.end())
      layouts[{static_cast<std::int32_t>(i)}] = found->second;
  }
  std::set<StorageId> wanted;
  for (const Node& node : graph.nodes()) {
    const Types types = graph.operands(node);
    const auto layout = settings.layouts.wants(node.op, types);
    const auto laid = layout ? lay_out_op(node.op, types, *layout, settings.layouts) : std::nullopt;
    for (std::size_t i = 0; laid && i < node.inputs.size(); ++i) {
      const Read* read = graph.node(node.inputs[i]).op->as<Read>();
      if (read == nullptr || !free(read->storage) ||
          graph.storage(read->storage).kind != StorageKind::parameter) {
        continue;
      }
      layouts[read->storage] = laid->operands[i];
    }
  }
  // Results of one node are stored alike.
  std::map<std::int32_t, Layout> by_writer;
  for (const Assignment& a : graph.assignments()) {
    if (layouts.contains(a.storage)) by_writer[a.value.node] = layouts[a.storage];
  }
  for (const Assignment& a : graph.assignments()) {
    const auto found = by_writer.find(a.value.node);
    const StorageKind kind = graph.storage(a.storage).kind;
    const bool of_optimizer = kind == StorageKind::moment || kind == StorageKind::average;
    if (found != by_writer.end() && free(a.storage) && of_optimizer) {
      layouts[a.storage] = found->second;
    }
  }
  // An average is stored in the layout of the parameter that it follows.
  const auto layout_of = [&](ValueId id) {
    const Read* read = graph.node(id).op->as<Read>();
    for (const Assignment& a : graph.assignments()) {
      const bool is_of = read != nullptr ? a.storage == read->storage : a.value == id;
      if (is_of && layouts.contains(a.storage)) return layouts[a.storage];
    }
    return Layout{};
  };
  for (const Assignment& a : graph.assignments()) {
    const Node& node = graph.node(a.value);
    if (!free(a.storage) || node.op->as<AverageUpdate>() == nullptr) continue;
    const Layout followed = layout_of(node.inputs[1]);
    if (!followed.plain()) layouts[a.storage] = followed;
  }
  return layouts;
}

/// The graph as it is written: each value of the old one in one layout or several.
class LayoutWriter {
 public:
  LayoutWriter(const ir::Graph& from, const Settings& settings)
      : from_(from),
        settings_(settings),
        to_(ir::Graph::like(from)),
        versions_(from.nodes().size()) {
    for (const auto& [storage, layout] : storage_layouts(from, settings)) {
      if (!layout.plain()) to_.set_layout(storage, layout);
    }
  }

  ir::Graph run() {
    for (std::int32_t index = 0; index < static_cast<std::int32_t>(from_.nodes().size()); ++index) {
      write(index);
    }
    finish();
    return std::move(to_);
  }

 private:
  /// A value in a layout; the first is the one in which it was made.
  struct Version {
    Layout layout;
    ValueId value;
  };

  void write(std::int32_t index) {
    Node node = from_.nodes()[index];
    versions_[index].resize(node.types.size());
    if (const Read* read = node.op->as<Read>()) {
      const Storage& storage = to_.storage(read->storage);
      node.op = make_op(Read{read->storage, storage.stored_type()});
      append(index, std::move(node), {}, {storage.layout});
      return;
    }
    const Types types = from_.operands(node);
    if (const auto laid = choose(node, types)) {
      node.op = laid->op;
      append(index, std::move(node), laid->operands, laid->results);
    } else {
      const std::vector<Layout> plain(std::max(node.inputs.size(), node.types.size()));
      append(index, std::move(node), plain, plain);
    }
  }

  /// How a node is stored; absent: plain.
  std::optional<LaidOutOp> choose(const Node& node, const Types& types) {
    if (const auto wanted = settings_.layouts.wants(node.op, types)) {
      return lay_out_op(node.op, types, *wanted, settings_.layouts);
    }
    std::optional<LaidOutOp> best;
    for (std::size_t i = 0; i < node.inputs.size() && !best; ++i) {
      const Layout& layout = first(node.inputs[i]).layout;
      if (layout.plain()) continue;
      auto laid = lay_out_op(node.op, types, layout, settings_.layouts);
      if (laid && pays(node, *laid)) best = std::move(laid);
    }
    return best;
  }

  /// Whether at least as many of the operands' bytes are in that layout as would have to be copied
  /// into it.
  bool pays(const Node& node, const LaidOutOp& laid) const {
    std::size_t there = 0, copied = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::size_t bytes = from_.type(node.inputs[i]).bytes();
      (has(node.inputs[i], laid.operands[i]) ? there : copied) += bytes;
    }
    return there >= copied;
  }

  void append(std::int32_t index, Node node, const std::vector<Layout>& operands,
              const std::vector<Layout>& results) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      node.inputs[i] = at(node.inputs[i], operands[i]);
    }
    if (node.guard.present()) node.guard = at(node.guard, {});
    // Each node is written where it stood, so what it waits for keeps its order.
    for (std::int32_t& waited : node.waits_for) waited = versions_[waited][0][0].value.node;
    const std::int32_t made = to_.append(std::move(node)).node;
    for (std::size_t k = 0; k < versions_[index].size(); ++k) {
      versions_[index][k].push_back({results[k], {made, static_cast<std::int32_t>(k)}});
    }
  }

  const Version& first(ValueId old) const { return versions_[old.node][old.output][0]; }

  const Version* find(ValueId old, const Layout& layout) const {
    const Shape& shape = from_.type(old).shape;
    for (const Version& version : versions_[old.node][old.output]) {
      const bool same =
          version.layout == layout ||
          (numel(shape) == 1 && apply_layout(version.layout, shape) == apply_layout(layout, shape));
      if (same) return &version;
    }
    return nullptr;
  }
  bool has(ValueId old, const Layout& layout) const { return find(old, layout) != nullptr; }

  /// The value in a layout: copied where it is not stored so yet, wherever it is made.
  ValueId at(ValueId old, const Layout& layout) {
    if (const Version* version = find(old, layout)) return version->value;
    const Version& made = first(old);
    const Node& node = from_.node(old);
    Node copy{make_op(Relayout{from_.type(old).shape, made.layout, layout}), {made.value}};
    copy.path = node.path;
    copy.line = node.line;
    copy.guard = to_.node(made.value).guard;
    const ValueId value = to_.append(std::move(copy));
    versions_[old.node][old.output].push_back({layout, value});
    return value;
  }

  void finish() {
    for (std::size_t k = 0; k < from_.objectives().size(); ++k) {
      to_.set_loss(k, at(from_.objectives()[k].loss, {}));
    }
    for (std::size_t i = 0; i < from_.readables().size(); ++i) {
      const ValueId value = from_.readables()[i].value;
      if (value.present()) to_.set_readable(i, at(value, {}));
    }
    std::vector<Assignment> assignments = from_.assignments();
    for (Assignment& a : assignments) a.value = at(a.value, to_.storage(a.storage).layout);
    to_.set_assignments(std::move(assignments));
  }

  const ir::Graph& from_;
  const Settings& settings_;
  ir::Graph to_;
  std::vector<std::vector<std::vector<Version>>> versions_;  // [node][output] of the old graph
};

}  // namespace

ir::Graph lay_out(ir::Graph graph, const Settings& settings) {
  const bool kept = std::ranges::any_of(
      settings.layouts.kept, [](const auto& storage) { return !storage.second.plain(); });
  if (!settings.layouts.wants && !kept) return graph;
  Settings asked = settings;
  if (!asked.layouts.wants) {
    asked.layouts.wants = [](const OpPtr&, std::span<const Type>) {
      return std::optional<Layout>();
    };
  }
  return LayoutWriter(graph, asked).run();
}

}  // namespace metronome::passes
