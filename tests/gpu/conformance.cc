// gpu_conformance: every op on CUDA device 0 against libtorch. Exit status 3: no GPU.
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "benchmarks/gpu_check/outcomes.h"
#include "tests/gpu/device_conformance.h"

namespace {

using namespace metronome;
using gpu_check::Outcome;
using gpu_check::Outcomes;

void check_here(const OpCheck& check, Outcomes& outcomes) {
  const std::unique_ptr<CudaDriver> driver = open_cuda(0);
  DevicePool pool(*driver, driver->make_stream());
  const std::vector<DevicePool*> twice = {&pool, &pool};
  const OpConformance found = check.run(twice);
  outcomes.add({check.op, fmt::format("{} cases are right", found.cases), found.troubles.empty(),
                fmt::format("{}", fmt::join(found.troubles, "\n    "))});
}

/// Each op in a process of its own, several at a time: in one process kernels compile one by one,
/// and one that faults would take the rest with it.
class Processes {
 public:
  explicit Processes(Outcomes& outcomes) : outcomes_(outcomes) {
    std::string name = (std::filesystem::temp_directory_path() / "metronome_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder_ = name;
  }
  ~Processes() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void run(const std::vector<OpCheck>& checks) {
    constexpr std::size_t kMost = 8;  // each holds half a GB of the device's memory
    const std::size_t count =
        std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMost);
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < std::min(count, checks.size()); ++t) {
      threads.emplace_back([&] {
        for (std::size_t i; (i = next++) < checks.size();) run(checks[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void run(const OpCheck& check) {
    const std::filesystem::path json = folder_ / (check.op + ".json");
    const std::filesystem::path log = folder_ / (check.op + ".log");
    const int status = std::system(fmt::format("'{}' {} --json '{}' > '{}' 2>&1", self_.string(),
                                               check.op, json.string(), log.string())
                                       .c_str());
    const std::lock_guard lock(mutex_);
    std::ifstream found(json);
    if (!found) {
      std::stringstream said;
      said << std::ifstream(log).rdbuf();
      outcomes_.add({check.op, "its process ends well", false,
                     fmt::format("status {}: {}", status, said.str())});
      return;
    }
    const nlohmann::json all = nlohmann::json::parse(found);
    for (const nlohmann::json& o : all.at("outcomes")) {
      outcomes_.add({o.at("subject"), o.at("check"), o.at("passed"), o.at("detail")});
    }
  }

  Outcomes& outcomes_;
  std::mutex mutex_;
  std::filesystem::path folder_;
  std::filesystem::path self_ = std::filesystem::read_symlink("/proc/self/exe");
};

int check(const std::vector<std::string>& ops, const std::optional<std::string>& json) {
  std::vector<OpCheck> checks = all_op_checks();
  if (!ops.empty()) {
    for (const std::string& op : ops) {
      if (std::ranges::find(checks, op, &OpCheck::op) != checks.end()) continue;
      fmt::print("There is no op \"{}\" with cases.\n", op);
      return 1;
    }
    std::erase_if(checks, [&](const OpCheck& check) {
      return std::ranges::find(ops, check.op) == ops.end();
    });
  }
  const auto device = gpu_check::device_or_reason();
  if (!device) return gpu_check::kUnavailable;
  Outcomes outcomes;
  outcomes.device = *device;
  if (checks.size() == 1) {
    check_here(checks[0], outcomes);
  } else {
    Processes(outcomes).run(checks);
  }
  return outcomes.finish(json);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> ops;
  std::optional<std::string> json;
  CLI::App app("Checks every op's kernels on a GPU.", "gpu_conformance");
  app.add_option("ops", ops, "Ops by name; all where none is given");
  app.add_option("--json", json, "Also write what was found to a file");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(2);
  try {
    return check(ops, json);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
