#include "graph/control/exclusions.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "graph/check/check_guards.h"
#include "tests/graph/check_bound.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/setting.h"

namespace metronome::testing::exclusions_test {
namespace {

using Weights = std::vector<std::size_t>;
using Numbers = std::vector<std::int32_t>;

control::Exclusions excluding(std::int32_t guards, std::vector<std::pair<int, int>> pairs) {
  control::Exclusions excludes(guards);
  for (const auto& [a, b] : pairs) excludes.add(a, b);
  return excludes;
}

struct Heaviest {
  std::size_t weight;
  Numbers guards;
};

Heaviest heaviest(const control::Exclusions& excludes, const Weights& weights) {
  control::HeaviestGuards held(excludes);
  for (std::size_t i = 0; i < weights.size(); ++i) held.add(static_cast<int>(i), weights[i]);
  return {held.weight(), held.guards()};
}

TEST_CASE("of guards that exclude each other the heaviest counts, of others all") {
  //  0 - 1    3 - 4       two choices, and one within branch 1 of the first: 5 or 6
  //    5 6
  const control::Exclusions two = excluding(7, {{0, 1}, {0, 5}, {0, 6}, {5, 6}, {3, 4}});
  const auto [weight, guards] = heaviest(two, Weights{10, 3, 0, 4, 2, 6, 5});
  CHECK(weight == 10 + 4);
  CHECK(guards == Numbers{0, 3});
  const auto inner = heaviest(two, Weights{8, 3, 0, 4, 4, 6, 5});
  CHECK(inner.weight == 3 + 6 + 4);
  CHECK(inner.guards == Numbers{1, 3, 5});
  CHECK(heaviest(control::Exclusions(), {}).weight == 0);
}

TEST_CASE("nothing excludes what holds in any case") {
  const control::Exclusions two = excluding(2, {{0, 1}});
  CHECK(two(0, 1));
  CHECK(two(1, 0));
  CHECK_FALSE(two(0, 0));
  CHECK_FALSE(two(-1, 1));
  CHECK_FALSE(two(0, -1));
}

TEST_CASE("the heaviest of random exclusions is that of all their subsets") {
  std::mt19937 random(3);
  const auto below = [&](std::size_t end) { return static_cast<int>(random() % end); };
  for (int round = 0; round < 300; ++round) {
    const int guards = 1 + below(11);
    const int density = 1 + below(9);
    control::Exclusions excludes(guards);
    for (int a = 0; a < guards; ++a) {
      for (int b = 0; b < a; ++b) {
        if (below(10) < density) excludes.add(a, b);
      }
    }
    Weights weights;
    for (int i = 0; i < guards; ++i) weights.push_back(below(6));
    std::size_t most = 0;
    for (int set = 0; set < 1 << guards; ++set) {
      std::size_t weight = 0;
      bool together = true;
      for (int a = 0; a < guards; ++a) {
        if ((set >> a & 1) == 0) continue;
        weight += weights[a];
        for (int b = 0; b < a; ++b) together &= (set >> b & 1) == 0 || !excludes(a, b);
      }
      if (together) most = std::max(most, weight);
    }
    // As they come and go: each weight is something else first.
    control::HeaviestGuards held(excludes);
    Weights before(weights.size());
    for (int change = 0; change < 40; ++change) {
      const int guard = below(weights.size());
      const std::size_t next = change < 30 ? below(6) : weights[guard];
      held.add(guard, next - before[guard]);
      before[guard] = next;
      static_cast<void>(held.weight());
    }
    for (int i = 0; i < guards; ++i) held.add(i, weights[i] - before[i]);
    const Heaviest found{held.weight(), held.guards()};
    REQUIRE(found.weight == most);
    std::size_t sum = 0;
    for (const std::int32_t a : found.guards) {
      sum += weights[a];
      for (const std::int32_t b : found.guards) REQUIRE_FALSE(excludes(a, b));
    }
    REQUIRE(sum == most);
  }
}

TEST_CASE("a choice of 64 and a loop of 100 are quick") {
  control::Exclusions choice(64);
  for (int a = 0; a < 64; ++a) {
    for (int b = 0; b < a; ++b) choice.add(a, b);
  }
  CHECK(heaviest(choice, Weights(64, 5)).weight == 5);
  // Guard 100 + k says that the loop ends where guard k begins.
  control::Exclusions loop(200);
  Weights weights(200, 1);
  for (int k = 0; k < 100; ++k) {
    for (int after = k; after < 100; ++after) loop.add(100 + k, after);
    for (int other = 0; other < k; ++other) loop.add(100 + k, 100 + other);
    weights[100 + k] = 3;
  }
  CHECK(heaviest(loop, weights).weight == 99 + 3);
}

TEST_CASE("guards that are not all true at once, as the planner and the checker read them") {
  Settings settings;
  settings.skips = true;
  int pairs = 0, excluded = 0, unseen = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    RandomGraph random(seed, Guarding::yes);
    const ir::Graph graph = random.make();
    CAPTURE(graph.print());
    const control::NumberedGuards planned = control::number_guards(graph.nodes(), settings);
    const check::GuardFacts checked(graph, true);
    const auto nodes = static_cast<std::int32_t>(graph.nodes().size());
    std::map<ValueId, std::int32_t> node_of;  // guard -> one of its nodes
    for (std::int32_t i = 0; i < nodes; ++i) {
      if (graph.nodes()[i].guard.present()) node_of[graph.nodes()[i].guard] = i;
    }
    Weights weights(static_cast<std::size_t>(planned.excludes.guards()));
    Held held;
    std::size_t free = 0;
    for (const auto& [a, i] : node_of) {
      const auto weight = static_cast<std::size_t>(random.below(100));
      held.emplace_back(checked.of(i), weight);
      (planned.of_node[i] < 0 ? free : weights[planned.of_node[i]]) += weight;
      for (const auto& [b, j] : node_of) {
        if (!(a < b)) continue;
        const bool exclude = planned.excludes(planned.of_node[i], planned.of_node[j]);
        REQUIRE(checked.exclude(checked.of(i), checked.of(j)) == exclude);
        bool seen = false;
        for (std::uint64_t number = 0; number < 4000 && !seen; ++number) {
          const Setting setting{graph, number};
          seen = setting.holds(a) && setting.holds(b);
        }
        REQUIRE_FALSE((seen && exclude));
        ++pairs;
        excluded += exclude ? 1 : 0;
        unseen += seen || exclude ? 0 : 1;
      }
    }
    REQUIRE(testing::heaviest(checked, held) == free + heaviest(planned.excludes, weights).weight);
  }
  MESSAGE(pairs, " pairs, of which ", excluded, " exclude each other and ", unseen,
          " could be true together, but were not in 4000 steps");
  CHECK(excluded > 500);
  CHECK(unseen < pairs / 50);
}

}  // namespace
}  // namespace metronome::testing::exclusions_test
