#include "graph/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"
#include "graph/exclusions.h"
#include "graph/lifetimes.h"
#include "graph/placement.h"
#include "graph/uses.h"

namespace metronome {
namespace {

constexpr std::size_t kHolders = 10;

std::vector<Holder> biggest_at(const Peak& peak, const Uses& uses, const NumberedGuards& guards,
                               const Lifetimes& lifetimes) {
  std::vector<Holder> holders;
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    const Life& life = lifetimes.lives[value];
    const bool is_root = uses.views[value].root == value;
    if (!is_root || life.begin > peak.step || life.end < peak.step || uses.bytes[value] == 0) {
      continue;
    }
    const std::int32_t guard = guards.of_node[uses.ids[value].node];
    if (guard >= 0 && !std::binary_search(peak.guards.begin(), peak.guards.end(), guard)) continue;
    holders.push_back({uses.ids[value], uses.bytes[value]});
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  if (holders.size() > kHolders) holders.resize(kHolders);
  return holders;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const Schedule& schedule,
                       const std::vector<std::size_t>& scratch_bytes, const Settings& settings) {
  const std::size_t nodes = graph.nodes().size();
  if (!scratch_bytes.empty() && scratch_bytes.size() != nodes) {
    throw InternalError(
        fmt::format("scratch bytes of {} nodes for a graph of {}", scratch_bytes.size(), nodes));
  }
  const std::size_t alignment = settings.alignment;
  const Uses uses = uses_of(graph);
  const NumberedGuards guards = number_guards(graph, settings);
  const Lifetimes lifetimes =
      lifetimes_of(graph, uses, schedule.order, schedule.in_place, guards, alignment);

  // Scratch is a block that is held for the one step of its node.
  std::vector<HeldBlock> blocks = lifetimes.blocks;
  std::vector<std::int32_t> scratch_nodes;
  for (std::size_t step = 0; step < schedule.order.size() && !scratch_bytes.empty(); ++step) {
    const std::int32_t node = schedule.order[step];
    if (scratch_bytes[node] == 0) continue;
    const std::size_t bytes = (scratch_bytes[node] + alignment - 1) / alignment * alignment;
    const auto now = static_cast<std::int32_t>(step);
    blocks.push_back({now, now, bytes});
    if (guards.of_node[node] >= 0) blocks.back().spans = {{now, now, guards.of_node[node]}};
    scratch_nodes.push_back(node);
  }
  const Placement placement = place(blocks, guards.excludes);
  const Peak peak = peak_of(blocks, guards.excludes);

  MemoryPlan plan;
  plan.arena_bytes = placement.bytes;
  plan.lower_bound = peak.bytes;
  plan.biggest = biggest_at(peak, uses, guards, lifetimes);
  plan.places.resize(nodes);
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    Place place = lifetimes.places[value];
    if (place.in == Place::In::arena) {
      place.offset += placement.offsets[place.index];
      place.index = -1;
    }
    plan.places[uses.ids[value].node].push_back(place);
  }
  plan.scratch_offsets.resize(nodes);
  for (std::size_t i = 0; i < scratch_nodes.size(); ++i) {
    plan.scratch_offsets[scratch_nodes[i]] = placement.offsets[lifetimes.blocks.size() + i];
  }
  plan.readable_bytes.resize(graph.readables().size());
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    if (uses.views[value].root != value || uses.homes[value] != Uses::Home::readable) continue;
    plan.readable_bytes[uses.home_index[value]] = uses.bytes[value];
  }
  return plan;
}

}  // namespace metronome
