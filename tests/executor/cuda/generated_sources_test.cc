// The fused groups of the shipped models: fusing takes reductions in.
// tests/gpu/model_limits_test.cc shows that every source compiles for devices.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "executor/cuda/driver/null_driver.h"
#include "executor/metronome.h"
#include "models/models.h"
#include "tests/doctest.h"

namespace metronome::generated_sources_test {
namespace {

/// Keeps the sources that a device would be asked to compile.
class Listening final : public NullDriver {
 public:
  CapturedNodes prepare(const Command& command) override {
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

/// True for the source of a group with a reduction: its kernel takes functors.
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
    // Convolutions, batch norms and pools fuse with nothing, nor do attention's products and
    // transposes.
    const std::string_view name = entry.name;
    const bool many_stay = name == "convnet" || name == "conv_autoenc" || name == "transformer";
    CHECK(fused.kernels <= (many_stay ? 0.85 : 0.75) * apart.kernels);
    CHECK(reductions > 0);
  }
}

}  // namespace
}  // namespace metronome::generated_sources_test
