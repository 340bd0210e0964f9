#include "graph/passes/share.h"

#include <fmt/format.h>

#include <unordered_map>

#include "graph/control/guards.h"
#include "graph/ir/structural.h"
#include "graph/passes/copier.h"

namespace metronome::passes {
namespace {

bool equal(const Node& a, const Node& b) {
  return a.inputs == b.inputs && a.types == b.types && a.waits_for == b.waits_for &&
         a.op->equals(*b.op);
}

/// Nodes that can be equal have the same text.
std::string fingerprint(const Node& node) {
  std::string text = fmt::format("{} {}", node.op->name(), node.op->attributes());
  for (const ValueId id : node.inputs) text += fmt::format(" {}.{}", id.node, id.output);
  return text;
}

}  // namespace

ir::Graph share(const ir::Graph& graph, const Settings&) {
  Copier copier(graph);
  const control::Guards guards(copier.to.nodes());
  std::unordered_multimap<std::string, std::int32_t> seen;  // fingerprint -> node of copier.to
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    Node node = graph.nodes()[i];
    for (ValueId& input : node.inputs) input = copier.at(input);
    node.guard = copier.guard_of(node);
    node.waits_for = copier.waits_of(node);
    if (node.op->effects()) {
      copier.copy(i);
      continue;
    }
    const std::string key = fingerprint(node);
    const auto [begin, end] = seen.equal_range(key);
    std::int32_t same = -1;
    for (auto it = begin; it != end; ++it) {
      const Node& earlier = copier.to.nodes()[it->second];
      if (equal(earlier, node) && guards.implies(node.guard, earlier.guard)) same = it->second;
    }
    if (same < 0) {
      copier.copy(i);
      seen.emplace(key, static_cast<std::int32_t>(copier.to.nodes().size()) - 1);
      continue;
    }
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      const auto output = static_cast<std::int32_t>(k);
      copier.replace({i, output}, {same, output});
    }
  }
  return copier.finish();
}

}  // namespace metronome::passes
