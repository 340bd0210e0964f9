// What the shipped models' fused groups are on a device: every source compiles there, and fusing
// takes reductions in. No device takes part.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "executor/cuda/null_driver.h"
#include "executor/metronome.h"
#include "models/models.h"
#include "tests/doctest.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include "executor/cuda/runtime/nvrtc.h"
#endif

namespace metronome {
namespace {

/// Keeps the sources that a device would be asked to compile.
class Listening final : public NullDriver {
 public:
  CapturedAs prepare(const Command& command) override {
    if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
      sources.emplace(*generated->source, generated->name);
    }
    return NullDriver::prepare(command);
  }
  std::map<std::string, std::string> sources;  ///< and the names of what they compute
};

struct Planned {
  std::map<std::string, std::string> sources;
  std::size_t declared = 0;  ///< kernels of a training step as declared
  std::size_t kernels = 0;   ///< as planned
};

Planned planned(const models::ModelEntry& entry, models::Scale scale, bool fuse) {
  const models::Model model = entry.make(scale, f32);
  const auto driver = std::make_shared<Listening>();
  Target target = cuda_graph({.fuse = fuse});
  target.driver = driver;
  CompileOptions options;
  options.modes = {Mode::train, Mode::evaluate};
  options.tune = Tune::off;
  const Executable step = compile(model.graph, target, options);
  const PlanReport& plan = step.report().plan(Mode::train);
  return {driver->sources, plan.kernels_declared, plan.kernels};
}

/// Of a group with a reduction: its kernel takes functors.
bool takes_in(const std::string& source) {
  return source.find("struct Operand") != std::string::npos ||
         source.find("struct Result") != std::string::npos;
}

TEST_CASE("fusing takes in maps and reductions of every model, so that fewer kernels are left") {
  for (const models::ModelEntry& entry : models::all_models()) {
    const Planned fused = planned(entry, models::Scale::small, true);
    const Planned apart = planned(entry, models::Scale::small, false);
    std::size_t reductions = 0;
    for (const auto& [source, name] : fused.sources) reductions += takes_in(source);
    fmt::print(
        "{}: {} kernels as declared, {} planned, {} fused; {} sources, {} with a reduction\n",
        entry.name, fused.declared, apart.kernels, fused.kernels, fused.sources.size(), reductions);
    INFO(entry.name);
    CHECK(4 * fused.kernels <= 3 * apart.kernels);
    CHECK(reductions > 0);
  }
}

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("compiling the models' generated kernels", METRONOME_NO_CUDA)

#else

TEST_CASE("the generated kernels of every model compile for a device") {
  using Clock = std::chrono::steady_clock;
  std::set<std::string> compiled;
  Clock::duration compiling{};
  for (const models::Scale scale : {models::Scale::small, models::Scale::full}) {
    for (const models::ModelEntry& entry : models::all_models()) {
      const Planned plan = planned(entry, scale, true);
      CHECK_FALSE(plan.sources.empty());
      for (const auto& [source, name] : plan.sources) {
        if (!compiled.insert(source).second) continue;
        INFO(entry.name, ", ", models::name_of(scale), ": ", name);
        const Clock::time_point begin = Clock::now();
        CHECK_NOTHROW(compile_cubin(source, "sm_90"));
        compiling += Clock::now() - begin;
      }
    }
  }
  fmt::print("{} sources compiled in {:.1f} s\n", compiled.size(),
             std::chrono::duration<double>(compiling).count());
}

#endif

}  // namespace
}  // namespace metronome
