#include "graph/passes/batch.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/compounds/batch.h"
#include "graph/compounds/group.h"
#include "graph/ir/op_model.h"
#include "graph/passes/walk/contraction.h"
#include "graph/passes/walk/copier.h"
#include "graph/rules/batch.h"

namespace metronome::passes {
namespace {

using Members = std::vector<std::int32_t>;  // nodes

/// Nodes of one op, guard and number of operands.
std::vector<Members> kinds_of(const ir::Graph& graph) {
  std::vector<Members> kinds;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    if (!node.op->ask<BatchRule>() || node.op->saved() > 0) continue;
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const Members& kind) {
      const Node& other = graph.nodes()[kind[0]];
      return node.guard == other.guard && node.inputs.size() == other.inputs.size() &&
             node.op->equals(*other.op);
    });
    if (same != kinds.end()) same->push_back(i);
    if (same == kinds.end()) kinds.push_back({i});
  }
  return kinds;
}

std::int32_t ready_after(const Node& node) {
  std::int32_t last = node.guard.node;
  for (const ValueId input : node.inputs) last = std::max(last, input.node);
  for (const std::int32_t before : node.waits_for) last = std::max(last, before);
  return last;
}

std::size_t bytes_of(const Node& node) {
  std::size_t bytes = 0;
  for (const Type& type : node.types) bytes += type.bytes();
  return bytes;
}

/// Parts of about equal bytes, in the order in which operands become ready.
std::vector<Members> parts_of(const ir::Graph& graph, Members members, std::size_t count) {
  std::stable_sort(members.begin(), members.end(), [&](std::int32_t a, std::int32_t b) {
    return ready_after(graph.nodes()[a]) < ready_after(graph.nodes()[b]);
  });
  double total = 0, before = 0;
  for (const std::int32_t m : members) total += static_cast<double>(bytes_of(graph.nodes()[m]));
  std::vector<Members> parts(count);
  for (const std::int32_t m : members) {
    // A member lies where its middle does.
    const auto bytes = static_cast<double>(bytes_of(graph.nodes()[m]));
    const double middle = total > 0 ? (before + bytes / 2) / total : 0;
    parts[std::min(count - 1, static_cast<std::size_t>(middle * static_cast<double>(count)))]
        .push_back(m);
    before += bytes;
  }
  std::erase_if(parts, [](const Members& part) { return part.empty(); });
  return parts;
}

/// Returns the part before the last '/' that all paths have in common: "optimizer" of
/// "optimizer/a/adam_update".
std::string common_path(const ir::Graph& graph, const Members& members) {
  std::string path = graph.nodes()[members[0]].path;
  for (const std::int32_t m : members) {
    const std::string other = graph.nodes()[m].path.get() + '/';
    while (!path.empty() && !other.starts_with(path + '/')) {
      const std::size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
  }
  return path.empty() ? "batch" : path;
}

/// Merges nodes that depend on each other neither directly nor through others.
void merge(const ir::Graph& graph, const Members& part, Contraction& units) {
  std::int32_t unit = units.of(part[0]);
  for (std::size_t i = 1; i < part.size(); ++i) {
    const auto& inputs = graph.nodes()[part[i]].inputs;
    const bool reads = std::any_of(inputs.begin(), inputs.end(),
                                   [&](ValueId input) { return units.of(input.node) == unit; });
    if (!reads) units.merge(unit, units.of(part[i]));
    unit = units.of(part[i]);
  }
}

void append_batch(const Members& members, Copier& copier) {
  const ir::Graph& from = copier.from;
  const Node& first = from.nodes()[members[0]];
  const auto outputs = static_cast<int>(first.types.size());
  Node node;
  node.op = make_op(Batch{first.op, static_cast<int>(members.size()),
                          static_cast<int>(first.inputs.size()), outputs});
  for (const std::int32_t m : members) {
    for (const ValueId input : from.nodes()[m].inputs) node.inputs.push_back(copier.at(input));
  }
  node.path = common_path(from, members);
  node.line = first.line;
  if (first.guard.present()) node.guard = copier.at(first.guard);
  node.waits_for = copier.waits_of(members);
  const std::int32_t made = copier.to.append(std::move(node)).node;
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (int k = 0; k < outputs; ++k) {
      copier.replace({members[i], k}, {made, static_cast<int>(i) * outputs + k});
    }
  }
}

}  // namespace

ir::Graph batch(ir::Graph graph, const Settings& settings) {
  if (settings.buckets == 0) return graph;
  Contraction units(graph);
  for (const Members& kind : kinds_of(graph)) {
    for (const Members& part : parts_of(graph, kind, settings.buckets)) merge(graph, part, units);
  }
  Copier copier(graph);
  for (const std::int32_t unit : units.order()) {
    const Members& members = units.members(unit);
    if (members.size() == 1) copier.copy(members[0]);
    if (members.size() > 1) append_batch(members, copier);
  }
  return copier.finish();
}

}  // namespace metronome::passes
