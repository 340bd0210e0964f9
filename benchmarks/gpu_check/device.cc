// gpu_device: what the GPU and its libraries are, and whether bytes come back from it. Exit status
// 3: no GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/gpu_check/outcomes.h"
#include "benchmarks/gpu_check/probe.h"
#include "benchmarks/gpu_check/programs.h"
#include "benchmarks/machine.h"
#include "executor/cuda/driver/driver.h"
#include "graph/ir/error.h"

namespace metronome::gpu_check {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

void bytes_come_back(Outcome& outcome, CudaDriver& driver) {
  std::vector<std::uint8_t> sent(kBytes), found(kBytes);
  std::iota(sent.begin(), sent.end(), std::uint8_t{0});
  const CudaStream stream = driver.make_stream();
  std::byte* const memory = driver.device_memory(kBytes);
  driver.upload(memory, sent.data(), kBytes, stream);
  driver.download(found.data(), memory, kBytes, stream);
  driver.release(memory);
  const auto wrong = std::mismatch(sent.begin(), sent.end(), found.begin()).first - sent.begin();
  outcome.passed = sent == found;
  outcome.detail = outcome.passed ? fmt::format("{} bytes", kBytes)
                                  : fmt::format("byte {} of {} is another", wrong, kBytes);
}

using Probe = std::function<void(Outcomes&, CudaDriver&)>;

/// By name; `scale` is that of models, where they are probed.
std::map<std::string, Probe> probes(models::Scale scale) {
  return {
      {"graphs", probe_graphs},
      {"failed-body", probe_failed_body},
      {"after-records", probe_after_records},
      {"nccl", probe_collectives},
      {"engines", [scale](Outcomes& o, CudaDriver& driver) { probe_engines(o, driver, scale); }},
  };
}

int check(const Probe& probe, const std::optional<std::string>& json) {
  std::unique_ptr<CudaDriver> driver;
  try {
    driver = open_cuda(0);
  } catch (const RunError& error) {
    fmt::print("{}\n", error.what());
    return kUnavailable;
  }
  const DeviceProperties& properties = driver->properties();
  Outcomes outcomes(properties.name, json);
  if (probe) {
    probe(outcomes, *driver);
    return outcomes.finish();
  }
  outcomes.run(properties.name, "is a device of ours", [&](Outcome& outcome) {
    outcome.passed = true;
    outcome.detail =
        fmt::format("compute capability {}.{}, {} multiprocessors, {:.1f} GiB; {}, libtorch {}",
                    properties.major, properties.minor, properties.multiprocessors,
                    static_cast<double>(properties.memory_bytes) / (1 << 30),
                    properties.library_versions, benchmarks::this_machine().libtorch);
  });
  outcomes.run(properties.name, "what is copied there comes back",
               [&](Outcome& outcome) { bytes_come_back(outcome, *driver); });
  return outcomes.finish();
}

}  // namespace
}  // namespace metronome::gpu_check

int metronome::programs::gpu_device(int argc, char** argv) {
  using metronome::gpu_check::probes;
  std::optional<std::string> json;
  std::string probe, scale = "small";
  CLI::App app("Says what the GPU and its libraries are.", "gpu_device");
  std::vector<std::string> names;
  for (const auto& [name, run] : probes({})) names.push_back(name);
  app.add_option("--probe", probe, "Instead: what the driver makes of the graphs of steps")
      ->check(CLI::IsMember(names));
  app.add_option("--scale", scale, "Of the models of --probe engines")
      ->check(CLI::IsMember({"small", "medium", "full"}))
      ->capture_default_str();
  app.add_option("--json", json, "Also write what was found to a file, line by line");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto all = probes(metronome::models::scale_of(scale));
    return metronome::gpu_check::check(probe.empty() ? nullptr : all.at(probe), json);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
