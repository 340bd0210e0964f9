// Places in experts, by blocks of one warp and of many.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "ops/route/route_kernels.h"
#include "tests/cuda/block_executor.h"

namespace metronome {
namespace {

using cuda::Index;

constexpr Index kExperts = 3, kTop = 2;

struct Places {
  std::vector<Index> slot, row_of, load;
  bool operator==(const Places&) const = default;
};

Places empty(Index rows, Index slots) {
  return {std::vector<Index>(kTop * rows, -1), std::vector<Index>(kExperts * slots, -1),
          std::vector<Index>(kExperts, -1)};
}

// Each row's experts, choice after choice.
std::vector<Index> some_choices(Index rows) {
  std::vector<Index> choice;
  for (Index k = 0; k < kTop; ++k) {
    for (Index row = 0; row < rows; ++row) {
      choice.push_back(row * kExperts + (row * row / 7 + k) % kExperts);
    }
  }
  return choice;
}

// One choice after the other.
Places counted(Index rows, Index slots, const std::vector<Index>& choice) {
  Places p = empty(rows, slots);
  p.row_of.assign(p.row_of.size(), 0);
  p.load.assign(kExperts, 0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const Index row = choice[i] / kExperts, expert = choice[i] % kExperts;
    const Index place = p.load[expert]++;
    p.slot[i] = place < slots ? expert * slots + place : kExperts * slots;
    if (place < slots) p.row_of[expert * slots + place] = row;
  }
  return p;
}

Places by_blocks(Index rows, Index slots, const std::vector<Index>& choice, int threads,
                 const RunOrder& order) {
  Places p = empty(rows, slots);
  const cuda::RouteSlots kernel{p.slot.data(), p.row_of.data(), p.load.data(), choice.data(),
                                rows,          kExperts,        kTop,          slots};
  const int shared_bytes = threads / cuda::kWarp * static_cast<int>(sizeof(int));
  BlockExecutor blocks;
  blocks.run(
      "route_slots", {.blocks = kExperts, .threads = threads, .shared_bytes = shared_bytes},
      [&](cuda::HostContext& c) { kernel(c); }, order);
  return p;
}

TEST_CASE("places are those of one choice after the other, however many warps count them") {
  for (const Index rows : {1, 40, 64, 65, 700, 1500}) {
    for (const Index slots : {Index{1}, rows / 3 + 1, kTop * rows}) {
      const std::vector<Index> choice = some_choices(rows);
      const Places expected = counted(rows, slots, choice);
      for (const int threads : {32, 96, 512}) {
        CAPTURE(rows);
        CAPTURE(slots);
        CAPTURE(threads);
        CHECK(by_blocks(rows, slots, choice, threads, {}) == expected);
        CHECK(by_blocks(rows, slots, choice, threads, {RunOrder::Kind::random, 5}) == expected);
      }
    }
  }
}

}  // namespace
}  // namespace metronome
