// The complete search for a layout: against all layouts of few blocks, and cases of known optimum.
#include "graph/placement/exact_placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "graph/placement/glued_blocks.h"
#include "tests/graph/placement_blocks.h"

namespace metronome::testing::exact_placement_test {
namespace {

using namespace placement_blocks;

constexpr std::size_t kWork = 500'000'000;

}  // namespace

TEST_CASE("a layout is found where the greedy ones leave a gap") {
  //  4 |[ b ][ d    ]
  //  2 |[    ][ c   ]
  //  0 |[  a     ][e]
  const Blocks blocks = {{0, 3, 2}, {0, 1, 4}, {2, 4, 2}, {2, 4, 2}, {4, 5, 2}};
  plan::ExactPlacer exact(blocks, kWork);
  const std::size_t peak = plan::peak_of(blocks).bytes;
  const plan::ExactAnswer found = exact.find(peak, kWork);
  REQUIRE(found.placement);
  CHECK(found.placement->bytes == peak);
  CHECK(is_valid(blocks, *found.placement));
  const plan::ExactAnswer none = exact.find(peak - 1, kWork);
  CHECK_FALSE(none.placement);
  CHECK(none.proves_none);
}

TEST_CASE("of few blocks it finds the best of all orders, and proves that none is better") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Blocks blocks = random_blocks(random, 3 + round % 5);
    CAPTURE(round);
    const std::size_t optimum = optimum_of(blocks), peak = plan::peak_of(blocks).bytes;
    plan::ExactPlacer exact(blocks, kWork);
    const plan::ExactAnswer found = exact.find(optimum, kWork);
    REQUIRE(found.placement);
    REQUIRE(found.placement->bytes == optimum);
    REQUIRE(is_valid(blocks, *found.placement));
    REQUIRE(exact.find(optimum - 1, kWork).proves_none);
    const plan::Placement improved =
        plan::ExactSearches(blocks).improve({{}, 2 * optimum, peak}, 0, kWork);
    REQUIRE(improved.bytes == optimum);
    REQUIRE(improved.least == optimum);
  }
}

TEST_CASE("a peak that no layout keeps to is proven to be too little") {
  // all steps hold 6 bytes, and no order of the nine blocks takes fewer than 7
  const Blocks blocks = {{2, 3, 1}, {3, 5, 3}, {1, 5, 1}, {4, 5, 2}, {1, 3, 1},
                         {0, 1, 3}, {2, 2, 2}, {0, 0, 3}, {1, 2, 1}};
  REQUIRE(plan::peak_of(blocks).bytes == 6);
  REQUIRE(optimum_of(blocks) == 7);
  plan::ExactPlacer exact(blocks, kWork);
  CHECK(exact.find(6, kWork).proves_none);
  const plan::Placement placement =
      plan::place(blocks, {}, plan::Effort::search, {.work = kWork, .enough = 0});
  CHECK(is_valid(blocks, placement));
  CHECK(placement.bytes == 7);
  CHECK(placement.least == 7);
}

TEST_CASE("rectangles that were cut into blocks are put together again") {
  std::mt19937 random(7);
  for (const unsigned gone : {0U, 5U, 20U}) {
    for (int round = 0; round < 8; ++round) {
      const Blocks blocks = cut_rectangle(random, gone == 20 ? 100 : 50, 4000, gone);
      CAPTURE(gone);
      CAPTURE(round);
      const plan::Placement placement =
          plan::place(blocks, {}, plan::Effort::search, {.work = 4 * kWork, .enough = 0});
      REQUIRE(is_valid(blocks, placement));
      REQUIRE(placement.bytes == 4000 * 64);
      REQUIRE(placement.least == placement.bytes);
    }
  }
}

TEST_CASE("hundreds of blocks are glued to few, with gaps and without") {
  struct Kind {
    std::size_t blocks;
    unsigned gone, halved;
  };
  for (const auto& [count, gone, halved] :
       {Kind{300, 0, 0}, Kind{300, 10, 0}, Kind{300, 0, 10}, Kind{1000, 5, 0}, Kind{2000, 0, 0}}) {
    std::mt19937 random(11);
    for (int round = 0; round < 2; ++round) {
      const Blocks blocks = cut_rectangle(random, count, 4000, gone, halved);
      CAPTURE(count);
      CAPTURE(gone);
      CAPTURE(halved);
      CAPTURE(round);
      const plan::Placement placement =
          plan::place(blocks, {}, plan::Effort::search, {.work = 4 * kWork, .enough = 0});
      REQUIRE(is_valid(blocks, placement));
      REQUIRE(placement.bytes == 4000 * 64);
    }
  }
}

TEST_CASE("blocks that fit are glued to one, with the gap between them") {
  //  5 |[ d       ]
  //  3 |[ a ][  b ]
  //  0 |[ c ]        from step 2 on nothing lies there
  const Blocks blocks = {{0, 1, 2}, {2, 4, 2}, {0, 1, 3}, {0, 4, 1}, {0, 4, 0}};
  std::size_t work = kWork;
  const std::vector<plan::GluedBlocks> glued = plan::glue_blocks(blocks, 6, 0, work);
  CHECK(work < kWork);
  REQUIRE_FALSE(glued.empty());
  CHECK(glued.back().blocks == Blocks{{0, 4, 6}});
  CHECK(is_valid(blocks, glued.back().placement({{0}, 6})));
}

TEST_CASE("each placement of glued blocks is one of the blocks, whatever they are") {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const Blocks blocks = random_blocks(random, 3 + round % 40);
    CAPTURE(round);
    const std::size_t bytes = plan::peak_of(blocks).bytes + random() % 3 * 16;
    for (int style = 0; style < plan::kGlueStyles; ++style) {
      std::size_t work = kWork;
      for (const plan::GluedBlocks& glued : plan::glue_blocks(blocks, bytes, style, work)) {
        REQUIRE(glued.blocks.size() < blocks.size());
        const plan::Placement placed = plan::place(glued.blocks, {}, plan::Effort::greedy);
        REQUIRE(is_valid(glued.blocks, placed));
        REQUIRE(is_valid(blocks, glued.placement(placed)));
      }
    }
  }
}

TEST_CASE("each level of glued blocks is made of whole blocks of the one before") {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const Blocks blocks = cut_rectangle(random, 40 + 10 * round, 400, 10, 10);
    CAPTURE(round);
    for (int style = 0; style < plan::kGlueStyles; ++style) {
      std::size_t work = kWork, most = blocks.size();
      std::vector<std::int32_t> before(blocks.size());
      std::iota(before.begin(), before.end(), 0);
      for (const auto& level : plan::glue_levels(blocks, 400 * 64, style, work)) {
        REQUIRE(5 * level.blocks.size() <= 4 * most);
        most = level.blocks.size();
        std::map<std::int32_t, std::int32_t> whole;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          const std::int32_t glued = level.within[i].glued;
          REQUIRE(whole.try_emplace(before[i], glued).first->second == glued);
          before[i] = glued;
        }
        const plan::Placement placed = plan::place(level.blocks, {}, plan::Effort::greedy);
        REQUIRE(is_valid(blocks, level.placement(placed)));
      }
    }
  }
}

TEST_CASE("a search that its work ends too early is no proof, and gives the same each time") {
  std::mt19937 random(3);
  const Blocks blocks = cut_rectangle(random, 400, 4000, 0);
  const plan::SearchLimits limits = {.work = 5'000'000, .enough = 0};
  const plan::Placement placement = plan::place(blocks, {}, plan::Effort::search, limits);
  CHECK(is_valid(blocks, placement));
  CHECK(placement.least == 4000 * 64);
  CHECK(placement.bytes > placement.least);
  CHECK(plan::place(blocks, {}, plan::Effort::search, limits) == placement);
  plan::ExactPlacer exact(blocks, 1000);
  const plan::ExactAnswer answer = exact.find(4000 * 64, 1000);
  CHECK_FALSE(answer.placement);
  CHECK_FALSE(answer.proves_none);
  CHECK(exact.exhausted());
}

TEST_CASE("more work never gives a larger arena") {
  std::mt19937 random(5);
  const Blocks blocks = cut_rectangle(random, 200, 4000, 10);
  std::size_t last = SIZE_MAX;
  for (const std::size_t work : {1'000'000UL, 30'000'000UL, 300'000'000UL}) {
    const std::size_t bytes =
        plan::place(blocks, {}, plan::Effort::search, {.work = work, .enough = 0}).bytes;
    CHECK(bytes <= last);
    last = bytes;
  }
}

TEST_CASE("blocks with guards, and very many, are left to the other searches") {
  CHECK(plan::ExactPlacer::takes(Blocks{{0, 1, 64}, {1, 2, 64}}));
  CHECK_FALSE(plan::ExactPlacer::takes(Blocks{{0, 1, 64, {{0, 1, 0}}}}));
  CHECK_FALSE(plan::ExactPlacer::takes(Blocks(plan::ExactPlacer::kMostBlocks + 1, {0, 1, 64})));
  CHECK_FALSE(plan::ExactPlacer::takes(Blocks{{0, 1, std::size_t{1} << 40}, {0, 1, 1}}));
}

}  // namespace metronome::testing::exact_placement_test
