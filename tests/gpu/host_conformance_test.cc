// Every op's CUDA kernels x its cases x f32 and f64 against libtorch, without a GPU: on devices
// made of the host whose threads run in three orders. Bazel may share the ops out to several
// processes.
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/doctest.h"
#include "tests/gpu/device_conformance.h"
#include "tests/gpu/host_device.h"

namespace metronome {
namespace {

std::size_t environment_number(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

/// Of Bazel's shards.
struct Share {
  std::size_t index = environment_number("TEST_SHARD_INDEX", 0);
  std::size_t count = environment_number("TEST_TOTAL_SHARDS", 1);
  Share() {
    // Tells Bazel that this program knows of shards.
    if (const char* file = std::getenv("TEST_SHARD_STATUS_FILE")) std::ofstream{file};
  }
};

}  // namespace

TEST_CASE("every op's kernels are right, whatever order threads run in") {
  at::set_num_threads(1);
  HostDevice first, second({RunOrder::Kind::reverse}), third({RunOrder::Kind::random, 7});
  const std::vector<DevicePool*> pools = {&first.pool, &second.pool, &third.pool};
  const std::vector<OpCheck> checks = all_op_checks();
  const Share share;
  using Clock = std::chrono::steady_clock;
  for (std::size_t i = share.index; i < checks.size(); i += share.count) {
    const Clock::time_point begin = Clock::now();
    const std::size_t before = host_kernels().compiler().count();
    const OpConformance found = checks[i].run(pools);
    fmt::print("{:<4} cases, {:<4} generated sources, {:4.1f} s: {}\n", found.cases,
               host_kernels().compiler().count() - before,
               std::chrono::duration<double>(Clock::now() - begin).count(), checks[i].op);
    CHECK(found.cases > 0);
    for (const std::string& trouble : found.troubles) FAIL_CHECK(trouble);
  }
}

}  // namespace metronome
