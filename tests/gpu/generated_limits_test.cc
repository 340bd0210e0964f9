// The generated kernels of every op's cases: a device of compute capability 9.0 would launch each
// as it is launched. No device takes part. Bazel may share the ops out to several processes.
#include <fmt/core.h>

#include <chrono>

#include "tests/doctest.h"
#include "tests/gpu/device_conformance.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/kernel_table.h"
#include "tests/gpu/shards.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include "tests/gpu/generated_rows.h"
#endif

namespace metronome {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("registers and threads of generated kernels", METRONOME_NO_CUDA)

#else

TEST_CASE("a device launches every generated kernel of the ops' cases") {
  LaunchListener driver;
  DevicePool pool(driver, driver.make_stream());
  DevicePool* const pools[] = {&pool};
  const std::vector<OpCheck> checks = all_op_checks();
  const Share share;
  for (std::size_t i = share.index; i < checks.size(); i += share.count) {
    for (const std::string& trouble : checks[i].run(pools).troubles) FAIL_CHECK(trouble);
    driver.clear_record();
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  KernelTable table;
  add_generated(table, driver.generated, "sm_90");
  fmt::print("{} sources compiled in {:.1f} s\n{}", table.size(),
             std::chrono::duration<double>(Clock::now() - begin).count(), table.text(20));
  table.keep("kernels.txt");
  CHECK(table.size() > 0);
  for (const std::string& trouble : table.troubles) FAIL_CHECK(trouble);
}

#endif

}  // namespace metronome
