// gpu_kernels: compiles what the shipped models' steps would compile at run time. Needs no GPU.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "benchmarks/gpu_check/control.h"
#include "benchmarks/gpu_check/steps.h"
#include "executor/cuda/driver/null_driver.h"
#include "executor/cuda/runtime/nvrtc.h"
#include "models/models.h"

#ifdef METRONOME_NO_CUDA

int main() {
  fmt::print("{}\n", METRONOME_NO_CUDA);
  return 3;
}

#else

namespace metronome::gpu_check {
namespace {

const std::vector<std::string> kArchitectures = {"sm_80", "sm_90"};

/// Compiles what it is asked to prepare, for each architecture: sources are the same for all. It
/// says that it computes, so that every candidate is prepared, as where they are timed.
class CompilingDriver final : public NullDriver {
 public:
  CompilingDriver(executor::runtime::CodeCache& cache, std::span<const std::string> architectures)
      : cache_(cache), architectures_(architectures) {}

  bool computes() const override { return true; }
  void compile_ahead(std::span<const Command* const> commands) override {
    for (const std::string& each : architectures_) {
      executor::runtime::compile_ahead(commands, each, cache_);
    }
  }
  CapturedNodes prepare(const Command& command) override {
    if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
      if (sources_.insert(*generated->source).second) {
        for (const std::string& each : architectures_)
          executor::runtime::cached_cubin(*generated->source, each, cache_);
      }
    }
    return NullDriver::prepare(command);
  }
  std::size_t count() const { return sources_.size(); }

 private:
  executor::runtime::CodeCache& cache_;
  std::span<const std::string> architectures_;
  std::set<std::string> sources_;
};

void fill(executor::runtime::CodeCache& cache, std::span<const std::string> architectures,
          const std::string& tuning) {
  const auto begin = std::chrono::steady_clock::now();
  const auto driver = std::make_shared<CompilingDriver>(cache, architectures);
  const auto compiled = [&](const Graph& graph) {
    Target target = cuda_graph({.conditions = Conditions::masked});
    target.driver = driver;
    compile(graph, target, {.tuning_file = tuning});
  };
  compiled(everything_moves().graph);
  compiled(SteeredModel().graph);
  for (const models::ModelEntry& entry : models::all_models()) {
    for (const auto scale : {models::Scale::small, models::Scale::full}) {
      compiled(entry.make(scale, f32).graph);
    }
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("{} kernels for each of {} in {:.1f} s\n", driver->count(),
             fmt::join(architectures, " and "), taken.count());
}

}  // namespace
}  // namespace metronome::gpu_check

int main(int argc, char** argv) {
  std::string folder;
  std::vector<std::string> architectures = metronome::gpu_check::kArchitectures;
  CLI::App app("Compiles the shipped models' generated kernels.", "gpu_kernels");
  app.add_option("folder", folder, "Where the code goes")->required();
  app.add_option("--architecture", architectures, "For which devices")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const std::string tuning = folder + "/no-tuning.json";  // of times that nobody measured
  try {
    metronome::executor::runtime::CodeCache cache(folder);
    metronome::gpu_check::fill(cache, architectures, tuning);
    std::filesystem::remove(tuning);
    return 0;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}

#endif
