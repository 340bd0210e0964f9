// Steps that are timed kernel by kernel: the same steps, on the CPU and on a device.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/error.h"
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
