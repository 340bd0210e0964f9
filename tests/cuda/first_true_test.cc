// How a conditional node finds the part that runs, on the host.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "executor/cuda/program/io_kernels.h"
#include "tests/cuda/block_executor.h"

namespace metronome {
namespace {

// Returns what the lanes of a warp find among guards of which these are true.
std::vector<int> found_among(int count, const std::vector<int>& true_ones, const RunOrder& order) {
  const auto values = std::make_unique<bool[]>(static_cast<std::size_t>(count));
  std::vector<const bool*> guards;
  for (int i = 0; i < count; ++i) guards.push_back(&values[i]);
  for (const int i : true_ones) values[i] = true;
  std::vector<int> found(cuda::kWarp);
  BlockExecutor blocks;
  blocks.run(
      "first_true", {.blocks = 1, .threads = cuda::kWarp},
      [&](cuda::HostContext& c) { found[c.thread()] = cuda::first_true(c, guards.data(), count); },
      order);
  return found;
}

TEST_CASE("all lanes find the first guard that is true, or that there is none") {
  const std::vector<std::vector<int>> cases = {{}, {0}, {31}, {32}, {5, 4, 9}, {40, 33}, {63}};
  for (const int count : {1, 2, 32, 33, 64, 100, 256}) {
    for (std::vector<int> true_ones : cases) {
      std::erase_if(true_ones, [&](int i) { return i >= count; });
      const int first =
          true_ones.empty() ? count : *std::min_element(true_ones.begin(), true_ones.end());
      for (const RunOrder::Kind kind :
           {RunOrder::Kind::forward, RunOrder::Kind::reverse, RunOrder::Kind::random}) {
        CAPTURE(count);
        CAPTURE(first);
        CHECK(found_among(count, true_ones, {kind, 3}) == std::vector<int>(cuda::kWarp, first));
      }
    }
  }
  CHECK(found_among(256, {255}, {}) == std::vector<int>(cuda::kWarp, 255));
}

}  // namespace
}  // namespace metronome
