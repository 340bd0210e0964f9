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
                                     .by = TimedBy::launches}}};
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
  CHECK(commands::to_json(step) ==
        "{\n"
        " \"steps\": 2,\n"
        " \"step_us\": 2.5,\n"
        " \"kernels\": [\n"
        "  {\n"
        "   \"kernel\": \"linear \\\"linear\\\" (a.cc:1)\",\n"
        "   \"op\": \"linear\",\n"
        "   \"path\": \"linear\",\n"
        "   \"phase\": \"forward\",\n"
        "   \"us\": 3.0,\n"
        "   \"runs\": 1.0,\n"
        "   \"bytes\": 64.0,\n"
        "   \"flops\": 128.0,\n"
        "   \"timed_by\": \"the host's clock\"\n"
        "  },\n"
        "  {\n"
        "   \"kernel\": \"exp \\\"choose/0/exp\\\" (a.cc:2)\",\n"
        "   \"op\": \"exp\",\n"
        "   \"path\": \"choose/0/exp\",\n"
        "   \"phase\": \"forward\",\n"
        "   \"us\": 0.5,\n"
        "   \"runs\": 0.5,\n"
        "   \"bytes\": 0.0,\n"
        "   \"flops\": 0.0,\n"
        "   \"timed_by\": \"launches\"\n"
        "  }\n"
        " ]\n"
        "}\n");
}

}  // namespace
