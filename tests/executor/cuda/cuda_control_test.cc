// Loops and branches that data decide, by the CUDA executor: on a device made of the host, which
// skips what a condition does not let run, and on one that only writes down.
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/driver/null_driver.h"
#include "executor/metronome.h"
#include "models/models.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

namespace metronome::cuda_control_test {
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
    return form.find(" region") != std::string::npos && form.ends_with(", kept");
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
  // 9 and -4 were clamped, and the first is told; so it is on a CPU.
  REQUIRE(replay.fault().has_value());
  CHECK(replay.fault()->starts_with("guard {when=0 of 3} \"choose/guard\" ("));
  CHECK(replay.fault()->ends_with("): selector 9 is out of range 0 to 2"));
  CHECK(replay.fault() == cpu.fault());
  driver->check();
}

TEST_CASE("the adaptive loop runs as often as on the CPU, inside one launch") {
  const models::Model model = models::feedback_adaptive(models::Scale::small, f32);
  const auto driver = std::make_shared<HostDriver>(HostSettings{.seed = 3});
  Executable replay = compile(model.graph, on(driver, cuda_graph({.streams = 1})), untuned());
  Executable cpu = compile(model.graph, cpu_replay(), untuned());
  const at::Tensor base = at::arange(model.inputs[0].type().numel(), at::TensorOptions(at::kFloat));
  const int launches = driver->counts().launches;
  for (int step = 0; step < 6; ++step) {
    const at::Tensor x = at::sin(base * 0.7 + step).reshape(model.inputs[0].shape());
    for (Executable* e : {&replay, &cpu})
      e->run({{model.inputs[0], x}, {model.inputs[1], x * 0.5}});
    CHECK(replay.read("iterations").item<int>() == cpu.read("iterations").item<int>());
  }
  CHECK(driver->counts().launches == launches + 6);
  fmt::print("{}\n", fmt::join(forms_of(replay), "\n"));
}

TEST_CASE(
    "a number that is not finite is told where a region makes it, not where it need not run") {
  Graph g("watched");
  const Value x = g.input("x", f32, {4}), which = g.input("which", i32, {});
  const Value y =
      x.choose(which, {[](Value h) { return log(h); }, [](Value h) { return h * 2.0; }});
  g.output("y", y);
  const Value scale = g.parameter("scale", {f32, {}}, constant(1.0));
  g.minimize(mean(square(y * scale)), Sgd{.lr = 0.0});
  const at::Tensor negative = at::full({4}, -1.0);
  for (const Conditions conditions :
       {Conditions::masked, Conditions::flat, Conditions::nested, Conditions::measured}) {
    CAPTURE(static_cast<int>(conditions));
    CompileOptions options = untuned();
    options.watch = true;
    Executable replay = compile(
        g, on(std::make_shared<HostDriver>(), cuda_graph({.conditions = conditions})), options);
    replay.run({{x, negative}, {which, number(1)}});
    CHECK_FALSE(replay.fault().has_value());
    replay.run({{x, negative}, {which, number(0)}});
    REQUIRE(replay.fault().has_value());
    CHECK(replay.fault()->find("log") != std::string::npos);
    CHECK(replay.fault()->ends_with("): made a NaN"));
  }
}

TEST_CASE("what may not be conditional runs always, and the report says so") {
  Chosen c;
  const auto driver =
      std::make_shared<HostDriver>(HostSettings{.seed = 8, .conditional_calls = false});
  Target target = on(driver, cuda_graph({.conditions = Conditions::flat}));
  Executable replay = compile(c.g, target, untuned());
  Executable steps =
      compile(c.g, on(std::make_shared<HostDriver>(), stepwise(cuda_device())), untuned());
  for (const int which : {2, 0, 1, 1, 0}) {
    for (Executable* e : {&replay, &steps}) {
      e->run({{c.x, c.input(which)}, {c.which, number(which)}});
    }
    CHECK(replay.read_scalar(c.g.loss()) == steps.read_scalar(c.g.loss()));
  }
  for (const std::string& path : steps.storages()) CHECK(replay.get(path).equal(steps.get(path)));
  CHECK(driver->counts().skipped > 0);
  const auto& forms = forms_of(replay);
  const auto masked = std::ranges::count_if(forms, [](const std::string& form) {
    return form.starts_with("matmul ") &&
           form.ends_with("): masked: what it captures to may not be conditional");
  });
  // Those of two branches of five layers, forward and back.
  CHECK(masked > 20);
}

/// The null target's record of the conditional nodes of one graph.
struct Recorded {
  int nodes = 0;
  int outermost = 0;
  int switches = 0;
  int deepest = 0;
  int graph_nodes = 0;
};

/// The record of the training step captured so. Checks that bodies hold commands and conditional
/// nodes alone, and that each has some.
Recorded record_of(const Graph& graph, Conditions conditions) {
  const auto driver = std::make_shared<NullDriver>();
  const Executable executable =
      compile(graph, on(driver, cuda_graph({.conditions = conditions})), untuned());
  Recorded recorded;
  std::vector<int> inside;  // of the bodies that are open
  const auto close = [&] {
    REQUIRE_FALSE(inside.empty());
    CHECK(inside.back() > 0);
  };
  for (const std::string& line : driver->record_lines()) {
    CAPTURE(line);
    const bool several = line.starts_with("switch of ");
    if (several || line.starts_with("if on stream ")) {
      if (!inside.empty()) ++inside.back();
      recorded.outermost += inside.empty();
      inside.push_back(0);
      ++recorded.nodes;
      recorded.switches += several;
      recorded.deepest = std::max(recorded.deepest, static_cast<int>(inside.size()));
    } else if (line == "else") {
      close();
      inside.back() = 0;
    } else if (line == "end") {
      close();
      inside.pop_back();
    } else if (!inside.empty()) {
      ++inside.back();
      const bool command = line.find(" <<<") != std::string::npos || line.starts_with("gemm ") ||
                           line.starts_with("copy ") || line.starts_with("zero ");
      CHECK(command);
    }
  }
  CHECK(inside.empty());
  recorded.graph_nodes = executable.report().plan(Mode::train).graph_nodes;
  fmt::print("{}: {} conditional nodes, {} outermost, {} switches, {} deep\n", graph.name(),
             recorded.nodes, recorded.outermost, recorded.switches, recorded.deepest);
  return recorded;
}

TEST_CASE("the record shows conditional nodes, whose bodies hold commands and such nodes alone") {
  const models::Model model = models::feedback_adaptive(models::Scale::small, f32);
  CHECK(record_of(model.graph, Conditions::masked).nodes == 0);
  // Nine iterations forward and back.
  const Recorded flat = record_of(model.graph, Conditions::flat);
  CHECK(flat.nodes >= 18);
  CHECK(flat.nodes <= 22);
  CHECK(flat.deepest == 1);
  // If the first iteration halts, a launch looks at the outermost nodes alone.
  const Recorded nested = record_of(model.graph, Conditions::nested);
  CHECK(nested.outermost <= 4);
  CHECK(nested.deepest == 9);
}

TEST_CASE("the branches of a choice are the cases of one switch") {
  const Chosen c;
  // Forward and back.
  for (const Conditions conditions : {Conditions::flat, Conditions::nested}) {
    const Recorded recorded = record_of(c.g, conditions);
    CHECK(recorded.switches == 2);
    CHECK(recorded.nodes == 2);
    CHECK(recorded.deepest == 1);
  }
}

}  // namespace
}  // namespace metronome::cuda_control_test
