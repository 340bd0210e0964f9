// Every op's CUDA kernels x its cases x f32 and f64 against libtorch, without a GPU: on devices
// made of the host whose threads run in three orders, in f64 in one. Bazel may share the ops out to
// several processes.
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/doctest.h"
#include "tests/gpu/device_conformance.h"
#include "tests/gpu/host_device.h"
#include "tests/gpu/kernel_table.h"
#include "tests/gpu/shards.h"
#include "tests/ops/asked.h"

namespace metronome {
TEST_CASE("every op's kernels are right, whatever order threads run in") {
  at::set_num_threads(1);
  HostDevice first, second({RunOrder::Kind::reverse}), third({RunOrder::Kind::random, 7});
  const std::vector<DevicePool*> pools = {&first.pool, &second.pool, &third.pool};
  std::vector<OpCheck> checks = all_op_checks({.pools_of_f64 = 1});
  std::erase_if(checks, [](const OpCheck& check) { return !asked_for(check.op); });
  LaunchListener listener;
  DevicePool heard(listener, listener.make_stream());
  DevicePool* const listening[] = {&heard};
  const Share share;
  using Clock = std::chrono::steady_clock;
  for (std::size_t i = share.index; i < checks.size(); i += share.count) {
    const Clock::time_point begin = Clock::now();
    const std::size_t before = host_kernels().compiler().count();
    checks[i].run(listening);  // what is generated, so that it is compiled together
    std::vector<std::string> sources;
    for (const auto& [source, launched] : listener.generated) sources.push_back(source);
    host_kernels().compiler().prepare(sources);
    listener.generated.clear();
    listener.clear_record();
    const OpConformance found = checks[i].run(pools);
    fmt::print("{:<4} cases, {:<4} generated sources, {:4.1f} s: {}\n", found.cases,
               host_kernels().compiler().count() - before,
               std::chrono::duration<double>(Clock::now() - begin).count(), checks[i].op);
    CHECK(found.cases > 0);
    for (const std::string& trouble : found.troubles) FAIL_CHECK(trouble);
  }
}

}  // namespace metronome
