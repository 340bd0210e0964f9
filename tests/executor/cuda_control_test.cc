// Loops and branches that data decide, by the CUDA executor: on a device made of the host, which
// skips what a condition does not let run, and on one that only writes down.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/null_driver.h"
#include "executor/metronome.h"
#include "models/models.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

// Last: libtorch defines a CHECK too, which counts nothing.

namespace metronome {
namespace {

CompileOptions untuned() {
  CompileOptions options;
  options.tune = Tune::off;
  options.seed = 7;
  return options;
}

Target on(std::shared_ptr<CudaDriver> driver, Target target) {
  target.driver = std::move(driver);
  return target;
}

/// Three branches, of which the last two are long.
struct Chosen {
  Graph g{"chosen"};
  Value x = g.input("x", f32, {4, 6});
  Value which = g.input("which", i32, {});
  Value y = x.choose(which, {[](Value h) { return h * 2.0; }, tower, tower}) + x;
  Chosen() { g.minimize(mean(square(y)), Adam{.lr = 1e-2}); }
  static Value tower(Value h) {
    return h.repeat(5, [](Value v) { return v.through(linear(6)).through(gelu); });
  }
  at::Tensor input(int step) const {
    return at::sin(at::arange(24, at::TensorOptions(at::kFloat)) * 0.3 + step).reshape({4, 6});
  }
};

at::Tensor number(int n) { return at::full({}, n, at::TensorOptions(at::kInt)); }

const std::vector<std::string>& forms_of(const Executable& executable) {
  return executable.report().plan(Mode::train).forms;
}

TEST_CASE("a graph with conditional regions: kept where skipping pays, the same bits as stepwise") {
  Chosen c;
  const auto driver = std::make_shared<HostDriver>(HostSettings{.seed = 5});
  Executable replay = compile(c.g, on(driver, cuda_graph()), untuned());
  Executable steps =
      compile(c.g, on(std::make_shared<HostDriver>(), stepwise(cuda_device())), untuned());
  Executable cpu = compile(c.g, cpu_replay(), untuned());
  const auto& forms = forms_of(replay);
  CHECK(std::any_of(forms.begin(), forms.end(), [](const std::string& form) {
    return form.find(" regions: ") != std::string::npos && form.ends_with(", kept");
  }));
  const int skipped = driver->counts().skipped;
  for (const int which : {0, 1, 2, 0, 9, -4, 2}) {
    for (Executable* e : {&replay, &steps, &cpu}) {
      e->run({{c.x, c.input(which)}, {c.which, number(which)}});
    }
    REQUIRE(replay.read_scalar(c.g.loss()) == steps.read_scalar(c.g.loss()));
    CHECK(replay.read_scalar(c.g.loss()) ==
          doctest::Approx(cpu.read_scalar(c.g.loss())).epsilon(1e-5));
  }
  CHECK(driver->counts().skipped > skipped + 7 * 5);
  for (const std::string& path : steps.storages()) {
    INFO(path);
    CHECK(replay.get(path).equal(steps.get(path)));
  }
  // 9 and -4 were clamped, and that is told; so it is on a CPU.
  REQUIRE(replay.fault().has_value());
  CHECK(replay.fault()->starts_with("guard {when=0 of 3} \"choose/guard\" ("));
  CHECK(replay.fault() == cpu.fault());
  driver->check();
}

TEST_CASE("the adaptive loop runs as often as on the CPU, inside one launch") {
  const models::Model model = models::feedback_adaptive(models::Scale::small, f32);
  const auto driver = std::make_shared<HostDriver>(HostSettings{.seed = 3});
  Executable replay = compile(model.graph, on(driver, cuda_graph({.streams = 1})), untuned());
  Executable cpu = compile(model.graph, cpu_replay(), untuned());
  const at::Tensor base = at::arange(model.input.type().numel(), at::TensorOptions(at::kFloat));
  const int launches = driver->counts().launches;
  for (int step = 0; step < 6; ++step) {
    const at::Tensor x = at::sin(base * 0.7 + step).reshape(model.input.shape());
    for (Executable* e : {&replay, &cpu}) e->run({{model.input, x}, {model.target, x * 0.5}});
    CHECK(replay.read("iterations").item<int>() == cpu.read("iterations").item<int>());
  }
  CHECK(driver->counts().launches == launches + 6);
  fmt::print("{}\n", fmt::join(forms_of(replay), "\n"));
}

TEST_CASE("the record shows conditional nodes, whose bodies hold commands alone") {
  const models::Model model = models::feedback_adaptive(models::Scale::small, f32);
  const auto driver = std::make_shared<NullDriver>();
  const Executable executable = compile(model.graph, on(driver, cuda_graph()), untuned());
  int regions = 0, inside = 0;
  bool open = false;
  for (const std::string& line : driver->record_lines()) {
    if (line.starts_with("if on stream ")) {
      REQUIRE_FALSE(open);
      open = true;
      inside = 0;
      ++regions;
    } else if (line == "end if") {
      REQUIRE(open);
      CHECK(inside > 0);
      open = false;
    } else if (open) {
      CAPTURE(line);
      ++inside;
      const bool command = line.find(" <<<") != std::string::npos || line.starts_with("gemm ") ||
                           line.starts_with("copy ") || line.starts_with("zero ");
      CHECK(command);
    }
  }
  // Nine iterations forward and back, and what else runs only with one of them.
  CHECK(regions >= 18);
  fmt::print("{} conditional nodes, {} graph nodes\n", regions,
             executable.report().plan(Mode::train).graph_nodes);
}

}  // namespace
}  // namespace metronome
