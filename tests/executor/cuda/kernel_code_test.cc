// Limits of a kernel's code, checked before it is launched: the whole sentence for each refusal.
#include <doctest/doctest.h>

#include "graph/ir/error.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include "executor/cuda/runtime/kernel_code.h"
#endif

namespace metronome::kernel_code_test {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("refusing launches", METRONOME_NO_CUDA)

#else

constexpr executor::runtime::KernelCode kCode{
    .threads = 512, .registers = 120, .shared_bytes = 49152};

TEST_CASE("a launch within what the code allows is let through") {
  CHECK_NOTHROW(executor::runtime::require_launchable("softmax", {.threads = 32}, kCode));
  CHECK_NOTHROW(executor::runtime::require_launchable(
      "softmax", {.threads = 512, .shared_bytes = 49152}, kCode));
}

TEST_CASE("more threads than the code allows are refused") {
  CHECK_THROWS_WITH_AS(
      executor::runtime::require_launchable("layer_norm_grad", {.threads = 544}, kCode),
      "Metronome made a mistake of its own, please report it: layer_norm_grad is "
      "launched with 544 threads a block, and its code, of 120 registers a "
      "thread, allows 512",
      InternalError);
}

TEST_CASE("more shared memory than the code allows is refused") {
  CHECK_THROWS_WITH_AS(
      executor::runtime::require_launchable("softmax", {.threads = 512, .shared_bytes = 49168},
                                            kCode),
      "Metronome made a mistake of its own, please report it: softmax is launched with 49168 bytes "
      "of shared memory, and its code allows 49152",
      InternalError);
}

TEST_CASE("shared memory is launched in whole reads of 16 bytes") {
  for (const int bytes : {0, 16, 48, 49152}) {
    CHECK(executor::runtime::launched_shared_bytes({.shared_bytes = bytes}) == unsigned(bytes));
  }
  CHECK(executor::runtime::launched_shared_bytes({.shared_bytes = 1}) == 16);
  CHECK(executor::runtime::launched_shared_bytes({.shared_bytes = 36}) == 48);
}

#endif

}  // namespace
}  // namespace metronome::kernel_code_test
