// Merging nodes of a graph, against a search of the whole graph.
#include "graph/passes/walk/contraction.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "graph/emit/emitter.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::contraction_test {
namespace {

using Groups = std::vector<std::vector<std::int32_t>>;

Groups listed(const passes::Contraction& groups) {
  Groups list;
  for (const std::int32_t group : groups.order()) list.push_back(groups.members(group));
  return list;
}

/// Pairs of groups, told by their first nodes, of which the second reads, runs under or waits for
/// the first.
std::set<std::pair<std::int32_t, std::int32_t>> reads(const passes::Contraction& groups) {
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  const auto name = [&](std::int32_t node) { return groups.members(groups.of(node))[0]; };
  for (std::int32_t n = 0; n < groups.nodes(); ++n) {
    for (const std::int32_t reader : groups.readers(n)) {
      if (name(n) != name(reader)) pairs.emplace(name(n), name(reader));
    }
  }
  return pairs;
}

/// Whether a way of two reads or more leads from one group to the other.
bool way_around(const passes::Contraction& groups, std::int32_t from, std::int32_t to) {
  const auto pairs = reads(groups);
  std::vector<std::int32_t> open = {from};
  std::set<std::int32_t> seen;
  while (!open.empty()) {
    const std::int32_t group = open.back();
    open.pop_back();
    for (auto it = pairs.lower_bound({group, -1}); it != pairs.end() && it->first == group; ++it) {
      if (it->second == to && group != from) return true;
      if (it->second != to && seen.insert(it->second).second) open.push_back(it->second);
    }
  }
  return false;
}

bool waits(const ir::Graph& graph, const passes::Contraction& groups, std::int32_t a,
           std::int32_t b) {
  for (const std::int32_t member : groups.members(a)) {
    for (const std::int32_t before : graph.nodes()[member].waits_for) {
      if (groups.of(before) == b) return true;
    }
  }
  return false;
}

void check_order(const passes::Contraction& groups) {
  std::set<std::int32_t> before;
  const auto pairs = reads(groups);
  std::set<std::pair<std::int32_t, std::int32_t>> met;
  for (const std::vector<std::int32_t>& members : listed(groups)) {
    for (const std::int32_t group : before) met.emplace(group, members[0]);
    before.insert(members[0]);
  }
  for (const auto& pair : pairs) CHECK(met.contains(pair));
}

TEST_CASE("a group stands where its last node did, what reads it after it, the rest as it was") {
  Graph g("pushed");
  const Value in = g.input("in", f32, {2});
  const Value a = node(g, "a", Scale{2}, {in});  // node 1
  node(g, "x", Scale{3}, {in});                  // 2
  node(g, "y", Scale{4}, {a});                   // 3
  node(g, "z", Scale{5}, {in});                  // 4
  node(g, "b", Scale{6}, {in});                  // 5
  const ir::Graph graph = g.emitter().graph;
  passes::Contraction groups(graph);
  REQUIRE(groups.merge(1, 5));
  CHECK(listed(groups) == Groups{{0}, {2}, {4}, {1, 5}, {3}});
}

TEST_CASE("groups merge exactly where no other way leads from one to the other") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    RandomGraph random(seed, seed % 2 == 0 ? Guarding::yes : Guarding::no, seed % 3 == 0);
    const ir::Graph graph = random.make();
    passes::Contraction groups(graph);
    int merged = 0;
    for (int i = 0; i < 100; ++i) {
      const std::int32_t a = groups.of(random.below(graph.nodes().size()));
      const std::int32_t b = groups.of(random.below(graph.nodes().size()));
      if (a == b) continue;
      const std::int32_t one = groups.members(a)[0], other = groups.members(b)[0];
      const bool may = !way_around(groups, one, other) && !way_around(groups, other, one) &&
                       !waits(graph, groups, a, b) && !waits(graph, groups, b, a);
      REQUIRE(groups.merge(a, b) == may);
      merged += may;
    }
    CHECK(merged > 0);
    check_order(groups);
  }
}

}  // namespace
}  // namespace metronome::testing::contraction_test
