#include <fmt/format.h>

#include <memory>

#include "graph/ir/error.h"
#include "tests/cuda/host_driver.h"
#include "tests/random/check.h"
#include "tests/random/run.h"

namespace metronome::random_programs {
namespace {

/// A program on a device of its own, whose threads and free nodes go in a random order.
struct OnDevice {
  std::shared_ptr<HostDriver> driver;
  Executable step;

  OnDevice(const Program& program, const Graph& graph, Target target, std::uint64_t order)
      : driver(std::make_shared<HostDriver>(HostSettings{.seed = order})),
        step(compile(graph, placed(std::move(target)), options_for(program))) {}

 private:
  Target placed(Target target) const {
    target.driver = driver;
    target.cuda.fuse = false;  // groups would be compiled, each program's anew
    return target;
  }
};

std::optional<Failure> run_on_devices(const Program& program, Tally* tally) {
  Builder built(program);
  built.build();
  const Graph& graph = built.graph();
  OnDevice flat(program, graph, cuda_graph({.conditions = Conditions::flat}), program.seed);
  OnDevice nested(program, graph, cuda_graph({.conditions = Conditions::nested}), program.seed + 1);
  OnDevice walk(program, graph, stepwise(cuda_device()), program.seed + 2);
  constexpr int kSteps = 4;
  for (int step = 0; step < kSteps; ++step) {
    const auto all = feeds(graph, program.seed, step);
    for (OnDevice* each : {&flat, &nested, &walk}) each->step.run(all);
    const auto expected = left_by(walk.step, graph);
    for (const auto& [name, each] : {std::pair("flat", &flat), std::pair("nested", &nested)}) {
      if (const auto wrong = difference_of_bits(left_by(each->step, graph), expected);
          !wrong.empty()) {
        return Failure{fmt::format("{} regions equal stepwise on a device", name),
                       fmt::format("after step {}: {}", step + 1, wrong)};
      }
    }
    if (flat.step.fault() != nested.step.fault()) {
      return Failure{"faults are equal on a device", flat.step.fault().value_or("none") + " and " +
                                                         nested.step.fault().value_or("none")};
    }
  }
  if (tally != nullptr) {
    const std::string& form = nested.step.report().plan(Mode::train).forms.at(0);
    ++tally->device_programs;
    tally->device_regions += form.find(" region") != std::string::npos;
    tally->device_nested += form.find(" deep") != std::string::npos;
    tally->device_skipped += flat.driver->counts().skipped + nested.driver->counts().skipped;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> check_on_device(const Program& program, Tally* tally) {
  return caught([&] { return run_on_devices(program, tally); });
}

}  // namespace metronome::random_programs
