// The GPU check's tests of loops and branches, on a device made of the host.
#include "benchmarks/gpu_check/control.h"

#include <memory>

#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

namespace metronome::gpu_check {
namespace {

Target on_host(Target target) {
  target.driver = std::make_shared<HostDriver>(HostSettings{.seed = 11});
  target.cuda.fuse = false;  // groups would be compiled
  return target;
}

TEST_CASE("a loop, a choice and sparse routing in one graph equal the kernels one by one") {
  for (const Conditions conditions : {Conditions::masked, Conditions::flat, Conditions::nested}) {
    Outcome outcome;
    regions_are_stepwise(outcome, on_host, conditions, 7, kNarrow);
    MESSAGE(outcome.detail);
    CHECK(outcome.passed);
  }
}

TEST_CASE("rounds that do not run save time") {
  Outcome outcome;
  skipping_shows(outcome, on_host, 3, kNarrow);
  MESSAGE(outcome.detail);
  CHECK(outcome.passed);
}

}  // namespace
}  // namespace metronome::gpu_check
