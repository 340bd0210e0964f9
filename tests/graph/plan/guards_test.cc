// Relations of guards to each other, beside trying all outcomes of what decides them.
#include "graph/control/regions.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/guarded.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::guards_test {
namespace {

/// Some guards in one another, decided by few values, or by guards.
struct Forest {
  explicit Forest(std::uint32_t seed) : graph("forest"), random(seed) {
    const Value x = graph.input("x", f32, {});
    std::vector<Value> deciders;
    for (int i = 0; i < 4; ++i) {
      deciders.push_back(node(graph, fmt::format("d{}", i), Blend{Type{i32, {}}}, {x}));
    }
    for (int i = 0; i < 9; ++i) {
      const bool by_guard = !guards.empty() && below(5) == 0;
      const Value decider =
          by_guard ? guards[below(guards.size())] : deciders[below(deciders.size())];
      const std::int64_t cases = by_guard ? 2 : 2 + below(2);
      Guard rule{below(cases), cases, !guards.empty() && below(3) > 0};
      std::vector<Value> inputs = {decider};
      if (rule.nested) inputs.push_back(guards[below(guards.size())]);
      guards.push_back(node(graph, fmt::format("g{}", i), rule, inputs));
    }
  }

  std::int64_t below(std::size_t n) { return static_cast<std::int64_t>(random() % n); }

  /// True where some outcomes of all deciders make the facts true: tries each.
  bool possible(const std::vector<control::GuardFact>& facts) const {
    // A decider counts once for each number of cases that it is clamped to.
    std::map<std::pair<ValueId, std::int64_t>, std::int64_t> outcomes;
    for (const Value& guard : guards) {
      const Guard& rule = *guard.node().op->as<Guard>();
      const ValueId decider = guard.node().inputs[0];
      if (graph.data().node(decider).op->as<Guard>() == nullptr)
        outcomes[{decider, rule.cases}] = 0;
    }
    while (true) {
      std::map<ValueId, bool> holds;
      for (const Value& guard : guards) {
        const Guard& rule = *guard.node().op->as<Guard>();
        const ValueId decider = guard.node().inputs[0];
        const auto outcome = outcomes.find({decider, rule.cases});
        const std::int64_t is = outcome == outcomes.end() ? holds.at(decider) : outcome->second;
        holds[guard.id()] = is == rule.when && (!rule.nested || holds.at(guard.node().inputs[1]));
      }
      bool all = true;
      for (const auto& [guard, wanted] : facts) all = all && holds.at(guard) == wanted;
      if (all) return true;
      auto next = outcomes.begin();
      while (next != outcomes.end() && ++next->second == next->first.second) {
        next->second = 0;
        ++next;
      }
      if (next == outcomes.end()) return false;
    }
  }

  Graph graph;
  std::mt19937 random;
  std::vector<Value> guards;
};

TEST_CASE("random guards: what is possible is what some outcomes make true") {
  int yes = 0, no = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    Forest forest(seed);
    const std::vector<Node> nodes(forest.graph.data().nodes().begin(),
                                  forest.graph.data().nodes().end());
    const control::Regions regions(nodes);
    for (int i = 0; i < 20; ++i) {
      std::vector<control::GuardFact> facts;
      for (std::int64_t k = 1 + forest.below(6); k > 0; --k) {
        facts.push_back({forest.guards[forest.below(9)].id(), forest.below(3) == 0});
      }
      const bool found = forest.possible(facts);
      CAPTURE(seed);
      CAPTURE(i);
      REQUIRE(regions.possible(facts) == found);
      ++(found ? yes : no);
    }
  }
  CHECK(yes > 1000);
  CHECK(no > 1000);
}

TEST_CASE("thirty chains beside each other are searched apart") {
  Graph g("chains");
  const Value x = g.input("x", f32, {});
  const auto decider = [&] { return node(g, "decider", Blend{Type{bool_, {}}}, {x}); };
  const auto guard = [&](std::int64_t when, Value decider, std::vector<Value> parent = {}) {
    std::vector<Value> inputs = {decider};
    inputs.insert(inputs.end(), parent.begin(), parent.end());
    return node(g, "guard", Guard{when, 2, !parent.empty()}, inputs);
  };
  const auto possible = [&](const std::vector<control::GuardFact>& facts) {
    const std::vector<Node> nodes(g.data().nodes().begin(), g.data().nodes().end());
    return control::Regions(nodes).possible(facts);
  };
  // a or b, but neither a nor b, whatever comes of the deciders under them.
  const Value a = guard(1, decider()), b = guard(1, decider());
  const Value neither = guard(0, b, {guard(0, a)});
  std::vector<control::GuardFact> facts = {{neither.id(), false}};
  for (const Value& either : {a, b}) {
    const Value under = decider();
    CHECK(possible(facts));
    for (const std::int64_t when : {0, 1}) {
      facts.push_back({guard(when, under, {either}).id(), false});
    }
  }
  CHECK_FALSE(possible(facts));
  // The search for it does not try all ways to break what has nothing to do with it.
  for (int chain = 0; chain < 30; ++chain) {
    Value last = guard(1, decider());
    for (int depth = 1; depth < 6; ++depth) last = guard(1, decider(), {last});
    facts.push_back({last.id(), false});
  }
  CHECK_FALSE(possible(facts));
  facts[0].holds = true;
  CHECK(possible(facts));
}

TEST_CASE("along a chain of two thousand guards an answer is a walk") {
  Graph g("chain");
  const Value x = g.input("x", f32, {});
  std::vector<Value> chain;
  for (int i = 0; i < 2000; ++i) {
    std::vector<Value> inputs = {node(g, "decider", Blend{Type{bool_, {}}}, {x})};
    if (i > 0) inputs.push_back(chain.back());
    chain.push_back(node(g, "guard", Guard{0, 2, i > 0}, inputs));
  }
  const std::vector<Node> nodes(g.data().nodes().begin(), g.data().nodes().end());
  const control::Regions regions(nodes);
  const ValueId first = chain.front().id(), middle = chain[1000].id(), last = chain.back().id();
  CHECK(regions.implies(last, first));
  CHECK_FALSE(regions.implies(first, last));
  CHECK_FALSE(regions.implies(middle, last));
  CHECK_FALSE(regions.exclude(first, last));
  CHECK(regions.possible(std::vector<control::GuardFact>{{middle, true}, {last, false}}));
  CHECK_FALSE(regions.possible(std::vector<control::GuardFact>{{middle, false}, {last, true}}));
}

}  // namespace
}  // namespace metronome::testing::guards_test
