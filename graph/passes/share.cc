#include "graph/passes/share.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/control/regions.h"
#include "graph/emit/hash.h"
#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"

namespace metronome::passes {
namespace {

/// Nodes that can be equal have the same number.
std::uint64_t fingerprint(const Op& op, const std::vector<ValueId>& inputs) {
  std::uint64_t number = hash_of(op.name()) ^ hash_of(op.attributes());
  const auto add = [&](std::int32_t more) {
    number = (number ^ static_cast<std::uint32_t>(more)) * 0x9E3779B97F4A7C15ull;
    number ^= number >> 32;  // or the high halves of the inputs never meet the low bits
  };
  for (const ValueId id : inputs) {
    add(id.node);
    add(id.output);
  }
  return number;
}

}  // namespace

ir::Graph share(ir::Graph graph, const Settings&) {
  Copier copier(graph);
  const control::Regions guards(copier.to.nodes());
  std::unordered_multimap<std::uint64_t, std::int32_t> seen;  // fingerprint -> node of copier.to
  std::vector<ValueId> inputs;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op->effects()) {
      copier.copy(i);
      continue;
    }
    inputs.clear();
    for (const ValueId input : node.inputs) inputs.push_back(copier.at(input));
    const ValueId guard = copier.guard_of(node);
    const std::vector<std::int32_t> waits = copier.waits_of(node);
    const std::uint64_t key = fingerprint(*node.op, inputs);
    const auto [begin, end] = seen.equal_range(key);
    std::int32_t same = -1;
    for (auto it = begin; it != end; ++it) {
      const Node& earlier = copier.to.nodes()[it->second];
      const bool equal = earlier.inputs == inputs && earlier.types == node.types &&
                         earlier.waits_for == waits && earlier.op->equals(*node.op);
      if (equal && guards.implies(guard, earlier.guard)) same = it->second;
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
