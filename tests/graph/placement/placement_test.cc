#include "graph/placement/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <vector>

namespace metronome::testing::placement_test {
namespace {

using Offsets = std::vector<std::size_t>;

TEST_CASE("blocks whose steps touch lie apart, others share bytes") {
  //  2 |      [ b  ]
  //  1 |[ a  ][ b  ]
  //  0 |[ a  ][ c        ]
  //    +0  1  2  3  4  5
  const std::vector<plan::HeldBlock> blocks = {{0, 1, 2}, {2, 3, 2}, {2, 5, 1}};
  const plan::Placement placement = plan::place(blocks);
  CHECK(placement.bytes == 3);
  CHECK(placement.offsets == Offsets{0, 0, 2});
}

TEST_CASE("both ends of a life count: a block that ends where another begins is in its way") {
  CHECK(plan::place(std::vector<plan::HeldBlock>{{0, 1, 4}, {1, 2, 4}}).bytes == 8);
  CHECK(plan::place(std::vector<plan::HeldBlock>{{0, 1, 4}, {2, 3, 4}}).bytes == 4);
}

TEST_CASE("no blocks and blocks without bytes take nothing") {
  CHECK(plan::place({}) == plan::Placement{});
  CHECK(plan::place(std::vector<plan::HeldBlock>{{0, 3, 0}}) == plan::Placement{{0}, 0});
}

TEST_CASE("the peak is the fullest step, the first of equals") {
  CHECK(plan::peak_of(std::vector<plan::HeldBlock>{{0, 1, 4}, {1, 2, 4}, {2, 2, 4}}) ==
        plan::Peak{8, 1});
  CHECK(plan::peak_of({}) == plan::Peak{0, 0});
}

TEST_CASE("blocks of guards that exclude each other share bytes at the same time") {
  //  4 |          [ c  ]      c in any case,
  //  2 |[ a           ]       a under guard 0: bytes 0 to 4,
  //  0 |[ a and b     ]       b under guard 1: bytes 0 to 2
  control::Exclusions excludes(2);
  excludes.add(0, 1);
  const std::vector<plan::HeldBlock> blocks = {
      {0, 3, 4, {{0, 3, 0}}}, {0, 3, 2, {{0, 3, 1}}}, {2, 3, 2}};
  const plan::Placement placement = plan::place(blocks, excludes);
  CHECK(placement.bytes == 6);
  CHECK(plan::peak_of(blocks, excludes) == plan::Peak{6, 2, {0}});
  CHECK(plan::place(blocks, control::Exclusions(2)).bytes == 8);
  CHECK(plan::peak_of(blocks, control::Exclusions(2)) == plan::Peak{8, 2, {0, 1}});
}

TEST_CASE("a block under a guard for a part of its steps shares bytes only then") {
  // a is held in any case up to step 1, then under guard 0; b and c under guard 1
  control::Exclusions excludes(2);
  excludes.add(0, 1);
  const plan::HeldBlock a = {0, 3, 4, {{0, 1, -1}, {2, 3, 0}}};
  const plan::HeldBlock b = {2, 3, 4, {{2, 3, 1}}};
  const plan::HeldBlock c = {1, 3, 4, {{1, 3, 1}}};
  CHECK_FALSE(plan::meet(a, b, excludes));
  CHECK(plan::meet(a, c, excludes));
  CHECK(plan::meet(b, c, excludes));
  CHECK(plan::place(std::vector<plan::HeldBlock>{a, b}, excludes).bytes == 4);
  CHECK(plan::place(std::vector<plan::HeldBlock>{a, c}, excludes).bytes == 8);
}

TEST_CASE("a gap below is taken before the space above") {
  //  3 |[ b           ]
  //  2 |[ b           ]
  //  1 |[ a ][ c ][ d ]
  //    +0    1    2
  const std::vector<plan::HeldBlock> blocks = {{0, 0, 1}, {0, 2, 2}, {1, 1, 1}, {2, 2, 1}};
  CHECK(plan::place(blocks).bytes == 3);
}

TEST_CASE("where largest first leaves a hole, another order of the portfolio reaches the peak") {
  // First fit by size puts the long thin block between the two large ones.
  const std::vector<plan::HeldBlock> blocks = {{0, 2, 3}, {2, 4, 3}, {4, 6, 3},
                                               {0, 6, 1}, {1, 3, 2}, {3, 5, 2}};
  CHECK(plan::place(blocks).bytes == plan::peak_of(blocks).bytes);
}

/// Near the peak, and no two blocks share bytes at the same time.
void check_near_peak(const std::vector<plan::HeldBlock>& blocks) {
  const plan::Placement placement = plan::place(blocks);
  CHECK(plan::near_peak(placement.bytes, plan::peak_of(blocks).bytes));
  std::size_t shared = 0;
  for (std::size_t a = 0; a < blocks.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool apart = placement.offsets[a] + blocks[a].bytes <= placement.offsets[b] ||
                         placement.offsets[b] + blocks[b].bytes <= placement.offsets[a];
      shared += !apart && meet(blocks[a], blocks[b], {}) ? 1 : 0;
    }
  }
  CHECK(shared == 0);
}

TEST_CASE("twelve thousand blocks, as of a long training step, near the peak") {
  // The forward pass's blocks are held until the backward pass reads them, the last first; between
  // them are values that the next step reads.
  constexpr std::int32_t kSteps = 6000;
  std::vector<plan::HeldBlock> blocks;
  for (std::int32_t step = 0; step < kSteps; ++step) {
    blocks.push_back({step, 2 * kSteps - step, static_cast<std::size_t>(64 + step % 7 * 64)});
    blocks.push_back(
        {kSteps + step, kSteps + step + 1, static_cast<std::size_t>(64 + step % 5 * 64)});
  }
  check_near_peak(blocks);
}

TEST_CASE("twelve thousand blocks of two sizes, the large ones held briefly, near the peak") {
  //  small:  [ held until the backward pass  ]       large:  [ ] [ ] [ ] [ ] ...
  // A large one put first where it begins would leave no place below for the small ones.
  constexpr std::int32_t kSteps = 6000;
  std::vector<plan::HeldBlock> blocks;
  for (std::int32_t step = 0; step < kSteps; ++step) {
    blocks.push_back({step, 2 * kSteps - step, 256});
    blocks.push_back({2 * step, 2 * step + 1, 1 << 20});
  }
  SUBCASE("as time runs") { check_near_peak(blocks); }
  SUBCASE("backwards") {
    for (plan::HeldBlock& block : blocks) block = {-block.end, -block.begin, block.bytes};
    for (plan::HeldBlock& block : blocks) {
      block.begin += 2 * kSteps;
      block.end += 2 * kSteps;
    }
    check_near_peak(blocks);
  }
}

TEST_CASE("ten thousand small blocks and a few large ones, near the peak") {
  //  small:  [ held until the end  ]    [ ]  [ ]  [ ]       large:  [    ][    ][    ]    [|||]
  // Where small ones begin first, they leave no place for the large ones at the end; seen backwards
  // the second half is the first one.
  constexpr std::int32_t kSmall = 5200, kEnd = 2 * kSmall + 10;
  constexpr std::size_t kLarge = 256 * kSmall / 5 / 64 * 64, kLast = 256 * kSmall / 9 / 64 * 64;
  std::vector<plan::HeldBlock> half;
  for (std::int32_t i = 0; i < kSmall; ++i) {
    if (i % 3 == 0) {
      half.push_back({2 * i, 2 * i + 9, 768});
    } else {
      half.push_back({2 * i, 2 * kSmall + i % 7, 256});
    }
  }
  for (std::int32_t k = 0; k < 6; ++k) {
    half.push_back({k * 2 * kSmall / 6, (k + 1) * 2 * kSmall / 6 - 5, kLarge});
  }
  for (int k = 0; k < 4; ++k) half.push_back({2 * kSmall - 3, 2 * kSmall + 1, kLast});
  std::vector<plan::HeldBlock> blocks = half;
  for (const plan::HeldBlock& block : half) {
    blocks.push_back({2 * kEnd - block.end, 2 * kEnd - block.begin, block.bytes});
  }
  check_near_peak(blocks);
  CHECK(plan::near_peak(plan::place(blocks, {}, plan::Effort::greedy).bytes,
                        plan::peak_of(blocks).bytes));
}

TEST_CASE("ten thousand blocks under guards that exclude each other, two of them large") {
  //  guard 0: [ large ]  [ ] [ ] [ ] ...       guard 1: [ large ]  [ ] [ ] [ ] ...
  constexpr std::int32_t kSteps = 5200;
  control::Exclusions excludes(2);
  excludes.add(0, 1);
  std::vector<plan::HeldBlock> blocks;
  for (const std::int32_t guard : {0, 1}) {
    const auto hold = [&](std::int32_t begin, std::int32_t end, std::size_t bytes) {
      blocks.push_back({begin, end, bytes, {{begin, end, guard}}});
    };
    hold(0, kSteps, 1 << 20);
    for (std::int32_t step = 0; step < kSteps; ++step) hold(step, step + 1, 256);
  }
  const std::size_t peak = plan::peak_of(blocks, excludes).bytes;
  CHECK(peak == (1 << 20) + 2 * 256);
  // Placed as the steps pass, all are held in any case; then guards are looked at.
  CHECK(plan::place(blocks, excludes, plan::Effort::greedy).bytes == 2 * peak);
  CHECK(plan::place(blocks, excludes).bytes == peak);
}

/// CPU seconds of the greedy placement of blocks that no placement holds near their peak.
double greedy_seconds(std::int32_t count) {
  std::mt19937 random(count);
  std::vector<plan::HeldBlock> blocks;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % count);
    blocks.push_back(
        {begin, begin + static_cast<std::int32_t>(random() % 40), 64 + random() % 4096});
  }
  const std::size_t peak = plan::peak_of(blocks).bytes;
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    const std::size_t bytes = plan::place(blocks, {}, plan::Effort::greedy).bytes;
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    REQUIRE_FALSE(plan::near_peak(bytes, peak));
  }
  return least;
}

TEST_CASE("the greedy placement of many blocks does not compare each with each") {
  // Four times the blocks take 16 times as long where each is compared with each.
  CHECK(greedy_seconds(80000) < 9 * greedy_seconds(20000));
}

}  // namespace
}  // namespace metronome::testing::placement_test
