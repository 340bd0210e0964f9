#include "benchmarks/commands/profile.h"

#include "tests/doctest.h"

namespace {

using namespace metronome;

TEST_CASE("what is written has every kernel, a step's microseconds and runs, a run's work") {
  const Profile kernels{.graph = "net",
                        .where = "2 threads",
                        .mode = train,
                        .steps = 2,
                        .kernels = {{.kernel = "linear \"linear\" (a.cc:1)",
                                     .op = "linear",
                                     .path = "linear",
                                     .phase = Phase::forward,
                                     .microseconds = 3,
                                     .bytes = 64,
                                     .flops = 128},
                                    {.kernel = "exp \"choose/0/exp\" (a.cc:2)",
                                     .op = "exp",
                                     .path = "choose/0/exp",
                                     .phase = Phase::forward,
                                     .microseconds = 0.5,
                                     .runs = 0.5,
                                     .by = TimingMethod::launches}}};
  commands::ProfiledStep step{.microseconds = 5.25, .kernels = kernels};
  const std::string tables = to_string(kernels);
  CHECK(commands::to_string(step) ==
        tables +
            "a step whose loss is read takes 5.2 us, 1.8 us more than its kernels: launches, "
            "waits, the host's own work\n");
  step.microseconds = 2.5;
  CHECK(commands::to_string(step) ==
        tables +
            "a step whose loss is read takes 2.5 us, 1.0 us less than its kernels one by one\n");
  step.kernels.kernels[0].by = TimingMethod::captured;
  step.kernels.idle_microseconds = 0.5;
  CHECK(commands::to_string(step).ends_with(
      "a step whose loss is read takes 2.5 us, 1.5 us less than the step that was recorded\n"));
}

}  // namespace
