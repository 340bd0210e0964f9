// Blocks in an order, and the stacks that they make: after any moves they are what all blocks, put
// in anew in that order, would make; undone moves leave no trace.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "graph/placement/block_stacks.h"
#include "tests/graph/placement_blocks.h"

namespace metronome::testing::stacks_test {
namespace {

using namespace placement_blocks;
using plan::kAbove, plan::kBelow;

constexpr std::size_t kUnit = 16;

std::vector<std::size_t> offsets_of(const plan::BlockStacks& stacks, std::size_t blocks) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < blocks; ++i) {
    offsets.push_back(static_cast<std::size_t>(stacks.below(static_cast<std::int32_t>(i))) * kUnit);
  }
  return offsets;
}

/// The blocks of the highest stack, sorted.
std::vector<std::int32_t> highest_of(const plan::BlockStacks& stacks) {
  std::vector<std::int32_t> blocks(stacks.highest().begin(), stacks.highest().end());
  std::ranges::sort(blocks);
  return blocks;
}

void check_against_anew(const plan::BlockStacks& stacks, const Blocks& blocks,
                        const control::Exclusions& excludes) {
  const std::vector<std::size_t> offsets = offsets_of(stacks, blocks.size());
  const plan::Placement placement{offsets, static_cast<std::size_t>(stacks.height()) * kUnit};
  REQUIRE(is_valid(blocks, placement, excludes));
  const plan::BlockStacks anew(blocks, excludes, kUnit, offsets);
  REQUIRE(offsets_of(anew, blocks.size()) == offsets);
  REQUIRE(anew.height() == stacks.height());
  REQUIRE(highest_of(anew) == highest_of(stacks));
}

/// Moves a few blocks many times.
void move_blocks(const Blocks& blocks, const control::Exclusions& excludes, std::uint32_t seed) {
  plan::BlockStacks::Random random(seed);
  const std::vector<std::size_t> zeros(blocks.size());
  plan::BlockStacks stacks(blocks, excludes, kUnit, zeros);
  check_against_anew(stacks, blocks, excludes);
  int kept = 0, undone = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const auto before = std::pair(offsets_of(stacks, blocks.size()), highest_of(stacks));
    const auto height = stacks.height();
    std::vector<std::int32_t> out = {stacks.highest()[random() % stacks.highest().size()]};
    stacks.take_out(out[0]);
    for (int more = 0; more < 4; ++more) {
      const std::int32_t block = stacks.near(out[random() % out.size()], random);
      if (block < 0 || stacks.is_out(block)) continue;
      stacks.take_out(block);
      out.push_back(block);
    }
    stacks.settle();
    const bool are_in =
        std::ranges::all_of(out, [&](std::int32_t block) { return stacks.put_in(block, random); });
    if (are_in && stacks.keep()) {
      ++kept;
      const bool is_higher = std::pair(stacks.height(), stacks.highest().size()) >
                             std::pair(height, before.second.size());
      REQUIRE_FALSE(is_higher);
    } else {
      ++undone;
      stacks.undo();
      REQUIRE(std::pair(offsets_of(stacks, blocks.size()), highest_of(stacks)) == before);
      REQUIRE(stacks.height() == height);
    }
    check_against_anew(stacks, blocks, excludes);
  }
  CHECK(kept > 0);
  CHECK(undone > 0);
}

TEST_CASE("stacks stay what their order makes them, whatever was moved or undone") {
  for (const std::uint32_t seed : {1, 2, 3, 4, 5, 6}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Blocks blocks = random_blocks(random, 40);
    blocks.push_back({3, 5, 0});       // without bytes
    blocks.push_back({100, 100, 16});  // meets none
    move_blocks(blocks, {}, seed);
  }
}

TEST_CASE("so do those of hundreds of blocks, most of which do not meet") {
  std::mt19937 random(8);
  Blocks blocks = random_blocks(random, 300);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto later = static_cast<std::int32_t>(random() % 40);
    blocks[i].begin += later;
    blocks[i].end += later + static_cast<std::int32_t>(random() % 10 == 0 ? 30 : 0);
  }
  move_blocks(blocks, {}, 8);
}

TEST_CASE("ranks come lowest first, each once") {
  plan::RankQueue queue(1000);
  std::mt19937 random(9);
  for (int round = 0; round < 50; ++round) {
    std::set<std::int32_t> waiting;
    for (int step = 0; step < 100; ++step) {
      if (random() % 3 != 0 || waiting.empty()) {
        const auto rank = static_cast<std::int32_t>(random() % 1000);
        queue.push(rank);
        waiting.insert(rank);
      } else {
        REQUIRE(queue.pop() == *waiting.begin());
        waiting.erase(waiting.begin());
      }
    }
    for (; !waiting.empty(); waiting.erase(waiting.begin())) {
      REQUIRE_FALSE(queue.empty());
      REQUIRE(queue.pop() == *waiting.begin());
    }
    REQUIRE(queue.empty());
  }
}

TEST_CASE("stacks of blocks under guards stay so, too") {
  control::Exclusions excludes(4);
  excludes.add(0, 1);
  excludes.add(2, 3);
  for (const std::uint32_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Blocks blocks = random_blocks(random, 40);
    for (plan::HeldBlock& block : blocks) {
      const auto guard = static_cast<std::int32_t>(random() % 5) - 1;
      if (guard >= 0) block.spans = {{block.begin, block.end, guard}};
    }
    move_blocks(blocks, excludes, seed);
  }
}

TEST_CASE("contacts are the next blocks of the order at each step") {
  std::mt19937 random(7);
  const Blocks blocks = random_blocks(random, 30);
  plan::Contacts contacts(blocks);
  std::vector<std::int32_t> order;
  const auto holds = [&](std::int32_t block, std::int32_t step) {
    return blocks[block].begin <= step && step <= blocks[block].end;
  };
  const auto check = [&] {
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      const std::int32_t block = order[rank];
      for (const auto side : {kBelow, kAbove}) {
        std::int32_t step = blocks[block].begin;
        for (const plan::Contact& contact : contacts.of(side, block)) {
          REQUIRE(contact.begin == step);
          for (; step <= contact.end; ++step) {
            std::int32_t next = -1;
            for (std::size_t i = rank; side == kBelow ? i-- > 0 : ++i < order.size();) {
              if (next < 0 && holds(order[i], step)) next = order[i];
            }
            REQUIRE(contact.block == next);
          }
        }
        REQUIRE(step == blocks[block].end + 1);
      }
    }
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const std::vector<std::int32_t> before = order;
    contacts.mark();
    const auto block = static_cast<std::int32_t>(random() % blocks.size());
    if (const auto found = std::ranges::find(order, block); found != order.end()) {
      order.erase(found);
      contacts.take_out(block);
    } else {
      const auto place = static_cast<std::ptrdiff_t>(random() % (order.size() + 1));
      std::vector<std::int32_t> met;
      std::size_t below = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (!plan::meet(blocks[order[i]], blocks[block], {})) continue;
        met.push_back(order[i]);
        below += static_cast<std::ptrdiff_t>(i) < place ? 1 : 0;
      }
      order.insert(order.begin() + place, block);
      contacts.put_in(block, met, below);
    }
    check();
    if (random() % 4 != 0) continue;
    contacts.undo();
    order = before;
    check();
  }
}

}  // namespace
}  // namespace metronome::testing::stacks_test
