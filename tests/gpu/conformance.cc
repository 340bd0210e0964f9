// gpu_conformance: an op on CUDA device 0 against libtorch. One a process: an op that faults takes
// no other with it. Exit status 3: no GPU.
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/gpu_check/outcomes.h"
#include "benchmarks/gpu_check/programs.h"
#include "executor/cuda/driver/driver.h"
#include "tests/gpu/device_conformance.h"

namespace {

using namespace metronome;
using gpu_check::Outcomes;

int check(const OpCheck& check, const std::optional<std::string>& json) {
  const auto device = gpu_check::device_or_reason();
  if (!device) return gpu_check::kUnavailable;
  Outcomes outcomes(*device, json);
  const std::unique_ptr<CudaDriver> driver = open_cuda(0);
  DevicePool pool(*driver, driver->make_stream());
  const std::vector<DevicePool*> twice = {&pool, &pool};
  const OpConformance found = check.run(twice);
  outcomes.add({check.op, fmt::format("{} cases are right", found.cases), found.troubles.empty(),
                fmt::format("{}", fmt::join(found.troubles, "\n    "))});
  return outcomes.finish();
}

int run(const std::string& op, bool list, const CaseLimits& limits,
        const std::optional<std::string>& json) {
  const std::vector<OpCheck> checks = all_op_checks(limits);
  if (list) {
    for (const OpCheck& each : checks) fmt::print("{}\n", each.op);
    return 0;
  }
  const auto found = std::ranges::find(checks, op, &OpCheck::op);
  if (found != checks.end()) return check(*found, json);
  fmt::print(stderr, "gpu_conformance: there is no op \"{}\" with cases: --list names them.\n", op);
  return 2;
}

}  // namespace

int metronome::programs::gpu_conformance(int argc, char** argv) {
  std::string op;
  bool list = false, small = false;
  std::optional<std::string> json;
  CLI::App app("Checks one op's kernels on a GPU.", "gpu_conformance");
  app.add_option("op", op, "The op's name");
  app.add_flag("--list", list, "Name the ops that have cases, and check none");
  app.add_flag("--small", small, "Only small cases, as under a sanitizer");
  app.add_option("--json", json, "Also write what was found to a file, line by line");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(2);
  try {
    return run(op, list, small ? kSmallCases : CaseLimits{}, json);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
