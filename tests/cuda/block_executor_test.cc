// The executor that runs kernels on the host: what it computes, and what it refuses.
#include "tests/cuda/block_executor.h"

#include <doctest/doctest.h>

#include <set>

#include "graph/ir/error.h"
#include "tests/error_of.h"

namespace metronome {
namespace {

using cuda::KernelShape;

const RunOrder kForward{};
const RunOrder kReverse{RunOrder::Kind::reverse};

std::vector<RunOrder> all_orders() {
  std::vector<RunOrder> orders = {kForward, kReverse};
  for (std::uint64_t seed = 0; seed < 8; ++seed) orders.push_back({RunOrder::Kind::random, seed});
  return orders;
}

// Returns the text that the body's run throws, or "nothing".
std::string trouble(const KernelShape& shape, const BlockExecutor::Body& body,
                    const RunOrder& order = kForward) {
  BlockExecutor blocks;
  return tests::error_of<KernelError>([&] { blocks.run("probe", shape, body, order); });
}

TEST_CASE("every thread of every block runs once, in any order") {
  BlockExecutor blocks;
  for (const RunOrder& order : all_orders()) {
    INFO(to_string(order));
    std::vector<int> runs(3 * 64);
    blocks.run(
        "probe", {.blocks = 3, .threads = 64},
        [&](HostContext& c) {
          CHECK(c.threads() == 64);
          CHECK(c.blocks() == 3);
          ++runs[cuda::first(c)];
        },
        order);
    CHECK(std::set<int>(runs.begin(), runs.end()) == std::set<int>{1});
  }
}

TEST_CASE("orders are what they are called") {
  BlockExecutor blocks;
  const auto order_of = [&](const RunOrder& order) {
    std::vector<int> ran;
    blocks.run(
        "probe", {.blocks = 2, .threads = 32},
        [&](HostContext& c) { ran.push_back(static_cast<int>(cuda::first(c))); }, order);
    return ran;
  };
  std::vector<int> expected(64);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(order_of(kForward) == expected);
  std::reverse(expected.begin(), expected.end());
  CHECK(order_of(kReverse) == expected);
  const std::vector<int> random = order_of({RunOrder::Kind::random, 7});
  CHECK(random == order_of({RunOrder::Kind::random, 7}));
  CHECK(random != order_of({RunOrder::Kind::random, 8}));
}

TEST_CASE("lanes get each other's values") {
  BlockExecutor blocks;
  for (const RunOrder& order : all_orders()) {
    INFO(to_string(order));
    blocks.run(
        "probe", {.blocks = 1, .threads = 96},
        [&](HostContext& c) {
          const int t = c.thread(), warp = t / 32 * 32, lane = t % 32;
          for (int round = 0; round < 3; ++round) {  // exchanges in a row keep their values apart
            CHECK(c.shuffle_xor(t * 1.5, 5) == (warp + (lane ^ 5)) * 1.5);
            CHECK(c.shuffle_down(t, 30) == (lane < 2 ? t + 30 : t));
            CHECK(c.shuffle(1.0f * t, 9) == warp + 9.0f);
            CHECK(c.shuffle(t, 31 - lane) == warp + 31 - lane);
            CHECK(c.ballot(lane % 3 == round) == (round == 0   ? 0x49249249u
                                                  : round == 1 ? 0x92492492u
                                                               : 0x24924924u));
          }
        },
        order);
  }
}

TEST_CASE("integer atomics give the old value") {
  int sum = 0, least = 1000;
  std::set<int> seen;
  CHECK(trouble({.blocks = 2, .threads = 32}, [&](HostContext& c) {
          seen.insert(c.atomic_add(&sum, 1));
          c.atomic_min(&least, 5 + c.thread());
        }) == "nothing");
  CHECK(sum == 64);
  CHECK(seen.size() == 64);
  CHECK(least == 5);
}

// The sum of 0 .. threads - 1 through shared memory; `correct` has the second barrier.
int shared_sum(HostContext& c, bool first_barrier, bool second_barrier) {
  int* const numbers = reinterpret_cast<int*>(c.shared());
  numbers[c.thread()] = c.thread();
  if (first_barrier) c.barrier();
  for (int half = c.threads() / 2; half > 0; half /= 2) {
    if (c.thread() < half) numbers[c.thread()] += numbers[c.thread() + half];
    if (second_barrier) c.barrier();
  }
  return numbers[0];
}

std::set<std::vector<int>> sums_over_orders(bool first_barrier, bool second_barrier) {
  BlockExecutor blocks;
  std::set<std::vector<int>> results;
  for (const RunOrder& order : all_orders()) {
    std::vector<int> sums(128);
    blocks.run(
        "probe", {.blocks = 1, .threads = 128, .shared_bytes = 512},
        [&](HostContext& c) { sums[c.thread()] = shared_sum(c, first_barrier, second_barrier); },
        order);
    results.insert(sums);
  }
  return results;
}

TEST_CASE("a missing barrier shows as other results in another order") {
  CHECK(sums_over_orders(true, true) == std::set{std::vector<int>(128, 127 * 64)});
  CHECK(sums_over_orders(false, true).size() > 1);
  CHECK(sums_over_orders(true, false).size() > 1);
}

TEST_CASE("shared memory begins with garbage in every block") {
  CHECK(trouble({.blocks = 3, .threads = 32, .shared_bytes = 128}, [](HostContext& c) {
          float* const numbers = reinterpret_cast<float*>(c.shared());
          CHECK(numbers[c.thread()] != numbers[c.thread()]);  // NaN
          numbers[c.thread()] = 1;
        }) == "nothing");
}

// "block_executor_test.cc:LINE"
std::string at(int line) { return fmt::format("block_executor_test.cc:{}", line); }

TEST_CASE("a thread that returns before others wait") {
  const auto all_but = [](int block, int thread) {
    return [=](HostContext& c) {
      if (c.block() != block || c.thread() != thread) c.barrier();
    };
  };
  const std::string place = "the barrier of " + at(__LINE__ - 3);
  const KernelShape shape{.blocks = 2, .threads = 64};
  CHECK(trouble(shape, all_but(1, 7)) ==
        "probe, block 1: thread 7 has returned where thread 0 is at " + place);
  CHECK(trouble(shape, all_but(1, 40), kReverse) ==
        "probe, block 1: thread 40 has returned where thread 63 is at " + place);
  // The others come after it.
  CHECK(trouble(shape, all_but(0, 0)) ==
        "probe, block 0: thread 0 has returned where thread 1 is at " + place);
}

TEST_CASE("a lane that returns before others of its warp exchange") {
  const auto ballot = [](HostContext& c) {
    if (c.thread() != 33) c.ballot(true);
  };
  const std::string ballot_place = at(__LINE__ - 2);
  const auto shuffle = [](HostContext& c) {
    if (c.thread() >= 33) c.shuffle(1, 0);
  };
  const std::string shuffle_place = at(__LINE__ - 2);
  const KernelShape shape{.blocks = 1, .threads = 64};
  CHECK(trouble(shape, ballot) ==
        "probe, block 0: thread 33 has returned where thread 32 is at ballot of " + ballot_place);
  CHECK(trouble(shape, shuffle) ==
        "probe, block 0: thread 32 has returned where thread 33 is at shuffle of " + shuffle_place);
}

TEST_CASE("lanes of a warp at different operations") {
  const auto apart = [](HostContext& c) {
    c.thread() < 16 ? static_cast<void>(c.shuffle_down(1, 4)) : c.barrier();
  };
  const std::string place = at(__LINE__ - 2);
  const KernelShape warp{.blocks = 1, .threads = 32};
  CHECK(trouble(warp, apart) == "probe, block 0: thread 16 is at the barrier of " + place +
                                    " where thread 0 is at shuffle_down by 4 of " + place);
  CHECK(trouble(warp, apart, kReverse) == "probe, block 0: thread 15 is at shuffle_down by 4 of " +
                                              place + " where thread 16 is at the barrier of " +
                                              place);

  const auto masks = [](HostContext& c) { c.shuffle_xor(1, c.thread() < 16 ? 1 : 2); };
  const std::string masks_place = at(__LINE__ - 1);
  CHECK(trouble(warp, masks) == "probe, block 0: thread 16 is at shuffle_xor by 2 of " +
                                    masks_place + " where thread 0 is at shuffle_xor by 1 of " +
                                    masks_place);
}

TEST_CASE("the same operation from two places of the kernel") {
  const auto divided = [](HostContext& c) {
    if (c.thread() < 40) {
      c.barrier();
    } else {
      c.barrier();
    }
  };
  const int line = __LINE__ - 3;
  const KernelShape shape{.blocks = 1, .threads = 64};
  CHECK(trouble(shape, divided) == "probe, block 0: thread 40 is at the barrier of " + at(line) +
                                       " where thread 0 is at the barrier of " + at(line - 2));
  // Warps go ways of their own.
  CHECK(trouble(shape, [](HostContext& c) {
          c.thread() < 32 ? c.ballot(true) : c.shuffle(1u, 1);
        }) == "nothing");
}

TEST_CASE("a lane that there is not") {
  CHECK(trouble({}, [](HostContext& c) { c.shuffle(1, 32); }) ==
        "probe, block 0: thread 0: shuffle from a lane beyond the warp");
  CHECK(trouble({}, [](HostContext& c) { c.shuffle_xor(1, 32); }) ==
        "probe, block 0: thread 0: shuffle_xor by a mask beyond the warp");
  CHECK(trouble({}, [](HostContext& c) { c.shuffle_down(1, -1); }) ==
        "probe, block 0: thread 0: shuffle_down by more than the warp");
}

TEST_CASE("writes outside of shared memory") {
  const std::string expected = "probe, block 2: writes outside of its 100 bytes of shared memory";
  for (const int at : {100, -1}) {
    CHECK(trouble({.blocks = 3, .threads = 32, .shared_bytes = 100}, [&](HostContext& c) {
            if (c.block() == 2) c.shared()[at] = 0;
          }) == expected);
  }
}

TEST_CASE("an executor goes on after a kernel that failed") {
  BlockExecutor blocks;
  const auto fails = [](HostContext& c) {
    if (c.thread() != 20) c.barrier();
  };
  CHECK_THROWS_AS(blocks.run("probe", {.blocks = 1, .threads = 64}, fails, kForward), KernelError);
  int sum = 0;
  blocks.run(
      "probe", {.blocks = 1, .threads = 64},
      [&](HostContext& c) {
        c.barrier();
        sum += c.thread();
      },
      kForward);
  CHECK(sum == 63 * 32);
}

TEST_CASE("what a body throws comes through") {
  CHECK_THROWS_WITH_AS(trouble({.blocks = 1, .threads = 64},
                               [](HostContext& c) {
                                 c.ballot(true);
                                 if (c.thread() == 40) throw std::out_of_range("row 7");
                                 c.barrier();
                               }),
                       "row 7", std::out_of_range);
}

TEST_CASE("shapes out of bounds") {
  BlockExecutor blocks;
  const auto run = [&](const KernelShape& shape) {
    blocks.run("probe", shape, [](HostContext&) {}, kForward);
  };
  const std::string ours = "Metronome made a mistake of its own, please report it: ";
  CHECK_THROWS_WITH_AS(run({.blocks = 0}), (ours + "probe is launched on 0 blocks").c_str(),
                       InternalError);
  CHECK_THROWS_WITH_AS(run({.blocks = 1LL << 31}),
                       (ours + "probe is launched on 2147483648 blocks").c_str(), InternalError);
  for (const int threads : {0, 33, 1056}) {
    CHECK_THROWS_WITH_AS(
        run({.blocks = 1, .threads = threads}),
        (ours + fmt::format("probe is launched with {} threads a block", threads)).c_str(),
        InternalError);
  }
  CHECK_THROWS_WITH_AS(run({.blocks = 1, .threads = 32, .shared_bytes = 49153}),
                       (ours + "probe is launched with 49153 bytes of shared memory").c_str(),
                       InternalError);
}

struct Plain {
  static constexpr const char* name = "plain";
};
struct Wide {
  static constexpr const char* name = "wide";
  static constexpr int most_threads = 1024;
};

TEST_CASE("no kernel is launched with more threads than it is compiled for") {
  CommandList commands;
  commands.launch(Plain{}, {.threads = 512});
  commands.launch(Wide{}, {.threads = 1024});
  CHECK_THROWS_WITH_AS(commands.launch(Plain{}, {.threads = 544}),
                       "Metronome made a mistake of its own, please report it: plain is launched "
                       "with 544 threads a block and compiled for 512",
                       InternalError);
  CHECK(commands.commands().size() == 2);
}

}  // namespace
}  // namespace metronome
