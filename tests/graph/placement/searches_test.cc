// Placements made lower by blocks that push others out, by blocks that are taken out and put in
// again, and by blocks glued together.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "graph/placement/ejection_search.h"
#include "graph/placement/multilevel_search.h"
#include "graph/placement/reinsertion_search.h"
#include "tests/graph/placement_blocks.h"

namespace metronome::testing::searches_test {
namespace {

using namespace placement_blocks;

constexpr std::size_t kWork = 500'000'000;

/// The searches, and how far above the peak each may leave blocks of an irregular graph, in
/// percent, with twice the usual work.
struct Search {
  std::string name;
  decltype(&plan::lower_by_ejection) lower;
  std::size_t percent;
};
const Search kSearches[] = {{"ejection", plan::lower_by_ejection, 2},
                            {"reinsertion", plan::lower_by_reinsertion, 5}};

/// Values of which each is made from three of the last 64, as of an irregular graph.
Blocks tangled(std::uint32_t seed, int count) {
  std::mt19937 random(seed);
  Blocks blocks;
  for (std::int32_t i = 0; i < count; ++i) {
    for (int k = 0; k < 3 && i > 0; ++k) {
      const std::size_t back = random() % std::min<std::size_t>(blocks.size(), 64);
      blocks[blocks.size() - 1 - back].end = i;
    }
    blocks.push_back({i, i, (1 + random() % 61) * 64});
  }
  return blocks;
}

plan::Placement greedy_of(const Blocks& blocks, const control::Exclusions& excludes = {}) {
  return plan::place(blocks, excludes, plan::Effort::greedy);
}

TEST_CASE("values of an irregular graph take little more than its fullest moment") {
  for (const Search& search : kSearches) {
    CAPTURE(search.name);
    for (const std::uint32_t seed : {1, 2, 3}) {
      const Blocks blocks = tangled(seed, 3000);
      const plan::Placement begin = greedy_of(blocks);
      const std::size_t peak = plan::peak_of(blocks).bytes;
      CHECK(begin.bytes > peak + peak / 20);
      const plan::Placement found = search.lower(blocks, {}, begin, 0, 2 * kWork);
      CAPTURE(static_cast<double>(found.bytes) / static_cast<double>(peak));
      CHECK(found.bytes <= peak + peak * search.percent / 100);
      CHECK(found.least == begin.least);
      CHECK(is_valid(blocks, found));
      CHECK(search.lower(blocks, {}, begin, 0, 2 * kWork) == found);
      // It ends where that is enough.
      const std::size_t aim = peak + peak * 2 * search.percent / 100;
      const plan::Placement enough = search.lower(blocks, {}, begin, aim, 2 * kWork);
      CHECK(enough.bytes <= aim);
      CHECK(enough.bytes >= found.bytes);
      CHECK(is_valid(blocks, enough));
    }
  }
}

TEST_CASE("of few blocks they nearly always find the best of all orders") {
  for (const Search& search : kSearches) {
    CAPTURE(search.name);
    std::mt19937 random(1);
    int best = 0;
    constexpr int kRounds = 300;
    for (int round = 0; round < kRounds; ++round) {
      CAPTURE(round);
      const Blocks blocks = random_blocks(random, 3 + round % 5);
      std::size_t all = 0;
      plan::Placement stacked;  // each on top of all before
      for (const plan::HeldBlock& block : blocks) {
        stacked.offsets.push_back(all);
        all += block.bytes;
      }
      stacked.bytes = all;
      const plan::Placement found = search.lower(blocks, {}, stacked, 0, 1);
      CHECK(is_valid(blocks, found));
      const std::size_t optimum = optimum_of(blocks);
      CHECK(found.bytes >= optimum);
      best += found.bytes == optimum;
    }
    MESSAGE(search.name, ": ", best, " of ", kRounds, " are the best");
    CHECK(best >= kRounds - 3);
  }
}

TEST_CASE("blocks under guards that exclude each other share bytes") {
  control::Exclusions excludes(4);
  excludes.add(0, 1);
  excludes.add(2, 3);
  std::mt19937 random(3);
  Blocks blocks = tangled(4, 400);
  for (plan::HeldBlock& block : blocks) {
    const auto guard = static_cast<std::int32_t>(random() % 5) - 1;
    if (guard >= 0) block.spans = {{block.begin, block.end, guard}};
  }
  const plan::Placement begin = greedy_of(blocks, excludes);
  for (const Search& search : kSearches) {
    CAPTURE(search.name);
    const plan::Placement found = search.lower(blocks, excludes, begin, 0, kWork);
    CHECK(is_valid(blocks, found, excludes));
    CHECK_FALSE(is_valid(blocks, found, control::Exclusions(4)));
    CHECK(found.bytes < begin.bytes);
    CHECK(found.bytes >= begin.least);
  }
}

TEST_CASE("a placement that is low enough, or of too many blocks, stays as it is") {
  for (const Search& search : kSearches) {
    CAPTURE(search.name);
    const auto unchanged = [&](const Blocks& blocks, const plan::Placement& begin) {
      return search.lower(blocks, {}, begin, 0, kWork) == begin;
    };
    CHECK(unchanged({}, {}));
    CHECK(unchanged({{0, 1, 0}}, {{0}, 0, 0}));
    CHECK(unchanged({{0, 1, 64}, {1, 2, 64}}, {{64, 0}, 128, 128}));
    CHECK(unchanged(Blocks(5000, {0, 1, 64}), {std::vector<std::size_t>(5000), 5001 * 64, 0}));
    constexpr std::size_t kLarge = std::size_t{1} << 30;
    CHECK(unchanged({{0, 0, kLarge + 1}, {1, 1, kLarge}}, {{0, kLarge + 1}, 2 * kLarge + 1, 0}));
    // Blocks without bytes are in nobody's way.
    const Blocks blocks = {{0, 4, 0}, {0, 1, 64}, {2, 3, 64}};
    const plan::Placement found = search.lower(blocks, {}, {{0, 64, 128}, 192, 0}, 0, 1);
    CHECK(found.bytes == 64);
    CHECK(is_valid(blocks, found));
  }
}

TEST_CASE("hundreds of blocks with gaps are put into their known optimum, or nearly") {
  int at_optimum = 0;
  constexpr int kCases = 10;
  for (int seed = 1; seed <= kCases; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const Blocks blocks = cut_rectangle(random, 300, 4000, 10, 20);
    const plan::Placement found = plan::place(blocks, {}, plan::Effort::search, {.enough = 0});
    CHECK(is_valid(blocks, found));
    CHECK(found.bytes <= found.least + found.least / 25);
    at_optimum += found.bytes == found.least ? 1 : 0;
  }
  MESSAGE(at_optimum, " of ", kCases, " are the optimum");
  CHECK(at_optimum == kCases);
}

TEST_CASE("thousands of blocks with gaps come within 1 % of their known optimum") {
  struct Case {
    std::size_t pieces;
    unsigned gone, halved, seed;
  };
  for (const Case& each : {Case{1000, 10, 20, 3}, {1500, 10, 10, 8}, {2000, 20, 0, 2}}) {
    CAPTURE(each.pieces);
    std::mt19937 random(each.seed);
    const Blocks blocks = cut_rectangle(random, each.pieces, 4000, each.gone, each.halved);
    const std::size_t optimum = plan::peak_of(blocks).bytes;
    const plan::Placement begin = greedy_of(blocks);
    CHECK(begin.bytes > optimum + optimum / 5);
    constexpr std::size_t kMuchWork = 5'000'000'000;
    const plan::Placement found =
        plan::lower_by_levels(blocks, begin, optimum + optimum / 100, kMuchWork);
    CHECK(is_valid(blocks, found));
    CHECK(found.bytes <= optimum + optimum / 100);
    CHECK(found.least == begin.least);
    // With less work it ends earlier, the same each time.
    const plan::Placement less = plan::lower_by_levels(blocks, begin, 0, kWork / 5);
    CHECK(is_valid(blocks, less));
    CHECK(less.bytes < begin.bytes);
    CHECK(plan::lower_by_levels(blocks, begin, 0, kWork / 5) == less);
  }
}

TEST_CASE("blocks that cannot be glued, or are held under guards, stay where they are") {
  Blocks blocks = {{0, 2, 64}, {1, 3, 128}, {2, 4, 192}};
  const plan::Placement begin{{320, 192, 0}, 384, 0};
  CHECK(plan::lower_by_levels({}, {}, 0, kWork) == plan::Placement{});
  CHECK(plan::lower_by_levels(blocks, begin, 0, kWork) == begin);
  std::mt19937 random(1);
  blocks = cut_rectangle(random, 300, 4000, 0);
  for (plan::HeldBlock& block : blocks) block.spans = {{block.begin, block.end, -1}};
  const plan::Placement greedy = greedy_of(blocks);
  CHECK(greedy.bytes > greedy.least);
  CHECK(plan::lower_by_levels(blocks, greedy, 0, kWork) == greedy);
}

}  // namespace
}  // namespace metronome::testing::searches_test
