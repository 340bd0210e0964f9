// Steps that are timed kernel by kernel: the same steps, on the CPU and on a device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/executor/targets.h"

namespace metronome {
namespace {

using tests::device_of_host;
using tests::plain_options;

struct Small {
  Graph g{"small"};
  Value x = g.input("x", f64, {4, 6});
  Value which = g.input("which", i32, {});
  Value y = x.through(linear(6)).choose(which, {[](Value h) { return exp(h); }, tanh});
  Small() { g.minimize(mean(square(y)), Adam{.lr = 1e-2}); }
  std::vector<Feed> feeds(int step, int branch) const {
    return {{x, at::sin(at::arange(24, at::TensorOptions(at::kDouble)) + step).reshape({4, 6})},
            {which, at::full({}, branch, at::TensorOptions(at::kInt))}};
  }
};

std::ptrdiff_t count(const std::vector<KernelTime>& times, const std::string& begin) {
  return std::ranges::count_if(
      times, [&](const KernelTime& time) { return time.kernel.starts_with(begin); });
}

TEST_CASE("a profiled step is a step") {
  for (const Target& target : {cpu_replay(), device_of_host()}) {
    const Small model;
    Executable profiled = compile(model.g, target, plain_options());
    Executable plain = compile(model.g, target, plain_options());
    for (int step = 0; step < 4; ++step) {
      const auto feeds = model.feeds(step, step % 2);
      plain.run(feeds);
      if (step == 2) {
        profiled.run(feeds);
      } else {
        CHECK_FALSE(profiled.profile(feeds).empty());
      }
      CHECK(profiled.read_scalar(model.g.loss()) == plain.read_scalar(model.g.loss()));
    }
    for (const std::string& path : plain.storages()) {
      CHECK(profiled.get(path).equal(plain.get(path)));
    }
    CHECK(profiled.replays() == 4);
    CHECK(profiled.steps() == 4);
  }
}

TEST_CASE("on a CPU it names the kernels that ran, with their lines") {
  const Small model;
  Executable step = compile(model.g, cpu_replay(), plain_options());
  const auto first = step.profile(model.feeds(0, 0)), second = step.profile(model.feeds(0, 1));
  CHECK(count(first, "exp \"choose/0/exp\" (tests/executor/profile_test.cc:") == 1);
  CHECK(count(first, "tanh \"choose/1/tanh\" (") == 0);
  CHECK(count(second, "exp ") == 0);
  CHECK(count(second, "tanh \"choose/1/tanh\" (") == 1);
  CHECK(first.size() < step.report().plan(Mode::train).kernels);
  for (const KernelTime& time : first) CHECK(time.microseconds >= 0);
}

TEST_CASE("on a device all kernels run, and the executor's own beside them") {
  const Small model;
  Executable step = compile(model.g, device_of_host(), plain_options());
  const auto times = step.profile(model.feeds(0, 0));
  CHECK(times.front().kernel == "load_inputs");
  CHECK(times.back().kernel == "store_reads");
  CHECK(count(times, "exp ") + count(times, "tanh ") == 2);
  CHECK(std::ranges::all_of(times, [](const KernelTime& time) { return time.microseconds > 0; }));
}

/// A device on which a launch takes 6 us, and a node of a graph 1.
std::shared_ptr<HostDriver> slow_to_launch() {
  return std::make_shared<HostDriver>(HostSettings{.seed = 9, .alone_us = 6});
}

Executable compiled_for(const std::shared_ptr<HostDriver>& driver, const Graph& graph) {
  Target target = cuda_graph({.fuse = false});
  target.driver = driver;
  return compile(graph, target, plain_options());
}

TEST_CASE("on a device a kernel's time is without its launch, and graphs are captured once") {
  const Small model;
  const auto driver = slow_to_launch();
  Executable step = compiled_for(driver, model.g);
  double sum = 0;
  for (const KernelTime& time : step.profile(model.feeds(0, 0))) {
    CAPTURE(time.kernel);
    CHECK(time.by == TimedBy::copies);
    const double nodes = std::round(time.microseconds);
    CHECK(time.microseconds == doctest::Approx(nodes));
    sum += nodes;
  }
  CHECK(sum == step.report().plan(Mode::train).graph_nodes);
  // Once more: nothing is captured again.
  const HostCounts before = driver->counts();
  step.profile(model.feeds(1, 1));
  CHECK(driver->counts().graphs == before.graphs);
  CHECK(driver->counts().allocations == before.allocations);
  driver->check();
}

TEST_CASE("a kernel that cannot be captured in copies is timed by launches, and says so") {
  const Small model;
  HostSettings settings{.seed = 9, .strict = false, .alone_us = 6};
  const auto driver = std::make_shared<HostDriver>(settings);
  Executable step = compiled_for(driver, model.g);
  // The fourth command of a profile is the first in a capture.
  driver->on_enqueue = [count = 0](const Command&, CudaStream) mutable {
    if (++count == 4) throw RunError("this may not be captured");
  };
  const auto times = step.profile(model.feeds(0, 0));
  CHECK(times[0].kernel == "load_inputs");
  CHECK(times[0].by == TimedBy::launches);
  CHECK(times[0].microseconds == doctest::Approx(6));
  for (std::size_t i = 1; i < times.size(); ++i) CHECK(times[i].by == TimedBy::copies);
  driver->check();
}

TEST_CASE("a device that records what it does is believed, of the kernels of the step itself") {
  const Small model;
  const auto driver =
      std::make_shared<HostDriver>(HostSettings{.seed = 9, .records = true, .alone_us = 6});
  Executable step = compiled_for(driver, model.g);
  Executable plain = compile(model.g, device_of_host(), plain_options());
  const HostCounts before = driver->counts();
  for (int i = 0; i < 2; ++i) {
    const auto feeds = model.feeds(i, i);
    const auto times = step.profile(feeds);
    plain.run(feeds);
    for (const KernelTime& time : times) {
      CAPTURE(time.kernel);
      CHECK(time.by == TimedBy::records);
      CHECK(time.microseconds >= 1);
    }
    CHECK(times.size() == step.profile(feeds).size());
    plain.run(feeds);
    CHECK(step.read_scalar(model.g.loss()) == plain.read_scalar(model.g.loss()));
  }
  CHECK(driver->counts().graphs == before.graphs);
  CHECK(driver->counts().launches == before.launches);
}

TEST_CASE("a profile of a device changes nothing that a step meets or is fed") {
  Graph g("watched");
  const Value x = g.input("x", f64, {2, 4}), kept = g.input("kept", f64, {2, 4});
  g.output("y", sum(log(x) * kept));
  g.minimize(mean(square(x.through(linear(2)))), Sgd{.lr = 0.1});
  CompileOptions options = plain_options();
  options.watch = true;
  Executable profiled = compile(g, device_of_host(), options);
  Executable plain = compile(g, device_of_host(), options);
  const auto fed = [](double least) {
    return (at::arange(8, at::TensorOptions(at::kDouble)) + least).reshape({2, 4});
  };
  for (const double least : {1.0, -2.0, 3.0}) {  // the second meets a NaN
    const std::vector<Feed> first = {{x, fed(least)}, {kept, fed(5)}}, later = {{x, fed(least)}};
    const auto& feeds = least == 1.0 ? first : later;
    plain.run(feeds);
    profiled.profile(feeds);
    for (const char* name : {"x", "kept"}) CHECK(profiled.input(name).equal(plain.input(name)));
    CHECK(profiled.fault() == plain.fault());
  }
  CHECK(plain.fault().has_value());
}

TEST_CASE("other targets refuse, and nothing has changed") {
  const Small model;
  for (const auto& [target, name] :
       {std::pair(eager(), "eager"), std::pair(stepwise(), "stepwise")}) {
    Executable step = compile(model.g, target, plain_options());
    step.run(model.feeds(0, 0));
    const at::Tensor before = step.input("x").clone();
    CHECK_THROWS_WITH_AS(step.profile(model.feeds(1, 0)),
                         fmt::format("graph \"small\" runs by {}, which is not timed kernel by "
                                     "kernel: profile cpu_replay or cuda_graph",
                                     name)
                             .c_str(),
                         RunError);
    CHECK(step.input("x").equal(before));
    CHECK(step.replays() == 1);
  }
}

}  // namespace
}  // namespace metronome
