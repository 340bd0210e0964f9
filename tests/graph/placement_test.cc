#include "graph/placement.h"

#include <doctest/doctest.h>

#include <vector>

namespace metronome {
namespace {

using Offsets = std::vector<std::size_t>;

TEST_CASE("blocks whose steps touch lie apart, others share bytes") {
  //  2 |      [ b  ]
  //  1 |[ a  ][ b  ]
  //  0 |[ a  ][ c        ]
  //    +0  1  2  3  4  5
  const std::vector<HeldBlock> blocks = {{0, 1, 2}, {2, 3, 2}, {2, 5, 1}};
  const Placement placement = place(blocks);
  CHECK(placement.bytes == 3);
  CHECK(placement.offsets == Offsets{0, 0, 2});
}

TEST_CASE("both ends of a life count: a block that ends where another begins is in its way") {
  CHECK(place(std::vector<HeldBlock>{{0, 1, 4}, {1, 2, 4}}).bytes == 8);
  CHECK(place(std::vector<HeldBlock>{{0, 1, 4}, {2, 3, 4}}).bytes == 4);
}

TEST_CASE("no blocks and blocks without bytes take nothing") {
  CHECK(place({}) == Placement{});
  CHECK(place(std::vector<HeldBlock>{{0, 3, 0}}) == Placement{{0}, 0});
}

TEST_CASE("the peak is the fullest step, the first of equals") {
  CHECK(peak_of(std::vector<HeldBlock>{{0, 1, 4}, {1, 2, 4}, {2, 2, 4}}) == Peak{8, 1});
  CHECK(peak_of({}) == Peak{0, 0});
}

TEST_CASE("blocks of guards that exclude each other share bytes at the same time") {
  //  4 |          [ c  ]      c in any case,
  //  2 |[ a           ]       a under guard 0: bytes 0 to 4,
  //  0 |[ a and b     ]       b under guard 1: bytes 0 to 2
  Exclusions excludes(2);
  excludes.add(0, 1);
  const std::vector<HeldBlock> blocks = {{0, 3, 4, {{0, 3, 0}}}, {0, 3, 2, {{0, 3, 1}}}, {2, 3, 2}};
  const Placement placement = place(blocks, excludes);
  CHECK(placement.bytes == 6);
  CHECK(peak_of(blocks, excludes) == Peak{6, 2, {0}});
  CHECK(place(blocks, Exclusions(2)).bytes == 8);
  CHECK(peak_of(blocks, Exclusions(2)) == Peak{8, 2, {0, 1}});
}

TEST_CASE("a block under a guard for a part of its steps shares bytes only then") {
  // a is held in any case up to step 1, then under guard 0; b and c under guard 1
  Exclusions excludes(2);
  excludes.add(0, 1);
  const HeldBlock a = {0, 3, 4, {{0, 1, -1}, {2, 3, 0}}};
  const HeldBlock b = {2, 3, 4, {{2, 3, 1}}};
  const HeldBlock c = {1, 3, 4, {{1, 3, 1}}};
  CHECK_FALSE(meet(a, b, excludes));
  CHECK(meet(a, c, excludes));
  CHECK(meet(b, c, excludes));
  CHECK(place(std::vector<HeldBlock>{a, b}, excludes).bytes == 4);
  CHECK(place(std::vector<HeldBlock>{a, c}, excludes).bytes == 8);
}

TEST_CASE("a gap below is taken before the space above") {
  //  3 |[ b           ]
  //  2 |[ b           ]
  //  1 |[ a ][ c ][ d ]
  //    +0    1    2
  const std::vector<HeldBlock> blocks = {{0, 0, 1}, {0, 2, 2}, {1, 1, 1}, {2, 2, 1}};
  CHECK(place(blocks).bytes == 3);
}

TEST_CASE("where largest first leaves a hole, another order of the portfolio reaches the peak") {
  // First fit by size puts the long thin block between the two large ones.
  const std::vector<HeldBlock> blocks = {{0, 2, 3}, {2, 4, 3}, {4, 6, 3},
                                         {0, 6, 1}, {1, 3, 2}, {3, 5, 2}};
  CHECK(place(blocks).bytes == peak_of(blocks).bytes);
}

}  // namespace
}  // namespace metronome
