// The order that hazards demand, against a checker that looks at every pair and every byte.
#include "executor/cuda/program/hazards.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace metronome::hazards_test {
namespace {

using Before = std::vector<std::vector<std::int32_t>>;

/// Bytes [begin, end) of a memory that nothing looks into.
executor::program::ByteRange bytes(std::size_t begin, std::size_t end) {
  static const std::byte memory[4096] = {};
  return {memory + begin, end - begin};
}

TEST_CASE("a reader comes after the writer, a writer after readers and writers") {
  const executor::program::TouchedMemory items[] = {
      {{}, {bytes(0, 8)}},                   // 0
      {{bytes(0, 8)}, {bytes(8, 16)}},       // 1
      {{bytes(0, 8)}, {bytes(16, 24)}},      // 2
      {{}, {bytes(0, 8)}},                   // 3 over what 1 and 2 read
      {{}, {bytes(0, 8)}},                   // 4 over what nothing read
      {{bytes(100, 108)}, {bytes(32, 40)}},  // 5 touches nothing of theirs
  };
  CHECK(executor::program::hazards(items) == Before{{}, {0}, {0}, {1, 2}, {3}, {}});
}

TEST_CASE("ranges that overlap in part are told apart by byte") {
  const executor::program::TouchedMemory items[] = {
      {{}, {bytes(0, 10)}},   // 0
      {{}, {bytes(10, 20)}},  // 1
      {{}, {bytes(5, 15)}},   // 2 over halves of both
      {{bytes(0, 5)}, {}},    // 3 what is left of 0
      {{bytes(14, 15)}, {}},  // 4 the last byte of 2
      {{bytes(0, 20)}, {}},   // 5 all three
      {{bytes(20, 30)}, {}},  // 6 behind them
  };
  CHECK(executor::program::hazards(items) == Before{{}, {}, {0, 1}, {0}, {2}, {2}, {}});
}

TEST_CASE("what another hazard implies is left out") {
  const executor::program::TouchedMemory items[] = {
      {{}, {bytes(0, 8)}},                           // 0
      {{bytes(0, 8)}, {bytes(8, 16)}},               // 1
      {{bytes(0, 8), bytes(8, 16)}, {bytes(0, 8)}},  // 2 after 1, so after 0
  };
  CHECK(executor::program::hazards(items) == Before{{}, {0}, {1}});
}

TEST_CASE("an item in place comes after the writer, not after itself; empty ranges touch nothing") {
  const executor::program::TouchedMemory items[] = {
      {{}, {bytes(0, 8)}},
      {{bytes(0, 8)}, {bytes(0, 8), bytes(0, 4)}},
      {{bytes(4, 4), {}}, {bytes(2, 2), {}}},
  };
  CHECK(executor::program::hazards(items) == Before{{}, {0}, {}});
}

/// Pairs of items that clash, and through which items: all pairs, all bytes.
struct Checker {
  explicit Checker(std::span<const executor::program::TouchedMemory> items) : reach(items.size()) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      reach[i].resize(items.size());
      for (std::size_t j = 0; j < i; ++j) {
        if (!clash(items[j], items[i])) continue;
        reach[i][j] = true;
        for (std::size_t k = 0; k < j; ++k) reach[i][k] = reach[i][k] || reach[j][k];
      }
    }
  }
  static bool meet(std::span<const executor::program::ByteRange> a,
                   std::span<const executor::program::ByteRange> b) {
    for (const executor::program::ByteRange& x : a) {
      for (const executor::program::ByteRange& y : b) {
        const auto at = [](const executor::program::ByteRange& r) {
          return static_cast<const std::byte*>(r.begin);
        };
        if (std::max(at(x), at(y)) < std::min(at(x) + x.bytes, at(y) + y.bytes)) return true;
      }
    }
    return false;
  }
  static bool clash(const executor::program::TouchedMemory& a,
                    const executor::program::TouchedMemory& b) {
    return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
  }
  std::vector<std::vector<bool>> reach;
};

TEST_CASE("random items: every clash is ordered, nothing else is, and no edge is implied") {
  std::mt19937 random(7);
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  for (int round = 0; round < 300; ++round) {
    const int span = 20 + below(400);
    std::vector<executor::program::TouchedMemory> items(1 + below(60));
    for (executor::program::TouchedMemory& item : items) {
      for (auto* list : {&item.reads, &item.writes}) {
        for (int i = below(4); i > 0; --i) {
          const int begin = below(span);
          list->push_back(bytes(begin, begin + below(30)));
        }
      }
    }
    const Before found = executor::program::hazards(items);
    const Checker checker(items);
    std::vector<std::vector<bool>> reach(items.size(), std::vector<bool>(items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) {
      REQUIRE(std::is_sorted(found[i].begin(), found[i].end()));
      for (auto it = found[i].rbegin(); it != found[i].rend(); ++it) {
        REQUIRE(static_cast<std::size_t>(*it) < i);
        REQUIRE(!reach[i][*it]);  // implied by a later one, or twice
        reach[i][*it] = true;
        for (int k = 0; k < *it; ++k) reach[i][k] = reach[i][k] || reach[*it][k];
      }
    }
    REQUIRE(reach == checker.reach);
  }
}

TEST_CASE("thousands of items over large ranges") {
  std::vector<executor::program::TouchedMemory> items;
  const auto* base = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 32);
  const std::size_t large = std::size_t{1} << 30;
  for (std::size_t i = 0; i < 8000; ++i) {
    items.push_back({{{base + i * large, large}, {base, 64}}, {{base + (i + 1) * large, large}}});
  }
  const Before found = executor::program::hazards(items);
  CHECK(found[0].empty());
  bool chain = true;
  for (std::int32_t i = 1; i < 8000; ++i) chain &= found[i] == std::vector<std::int32_t>{i - 1};
  CHECK(chain);
}

}  // namespace
}  // namespace metronome::hazards_test
