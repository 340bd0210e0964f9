// Steps that are timed kernel by kernel: the same steps, on the CPU and on a device.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/metronome/op.h"
#include "graph/ir/error.h"
#include "ops/own/own_ops.h"
#include "tests/aten.h"
#include "tests/executor/load.h"
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

std::ptrdiff_t count(const Profile& profile, const std::string& begin) {
  return std::ranges::count_if(
      profile.kernels, [&](const KernelTime& time) { return time.kernel.starts_with(begin); });
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
        CHECK_FALSE(profiled.profile(feeds).kernels.empty());
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
  CHECK(count(first, "exp \"choose/0/exp\" (tests/executor/record/profile_test.cc:") == 1);
  CHECK(count(first, "tanh \"choose/1/tanh\" (") == 0);
  CHECK(count(second, "exp ") == 0);
  CHECK(count(second, "tanh \"choose/1/tanh\" (") == 1);
  CHECK(first.kernels.size() < step.report().plan(Mode::train).kernels);
  for (const KernelTime& time : first.kernels) CHECK(time.microseconds >= 0);
}

TEST_CASE("on a device all kernels run, and the executor's own beside them") {
  const Small model;
  Executable step = compile(model.g, device_of_host(), plain_options());
  const auto times = step.profile(model.feeds(0, 0));
  CHECK(times.kernels.front().kernel == "load_inputs");
  CHECK(times.kernels.back().kernel == "store_reads");
  CHECK(count(times, "exp ") + count(times, "tanh ") == 2);
  CHECK(std::ranges::all_of(times.kernels,
                            [](const KernelTime& time) { return time.microseconds > 0; }));
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
  for (const KernelTime& time : step.profile(model.feeds(0, 0)).kernels) {
    CAPTURE(time.kernel);
    CHECK(time.by == TimingMethod::copies);
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
  const std::vector<KernelTime> times = step.profile(model.feeds(0, 0)).kernels;
  CHECK(times[0].kernel == "load_inputs");
  CHECK(times[0].by == TimingMethod::launches);
  CHECK(times[0].microseconds == doctest::Approx(6));
  for (std::size_t i = 1; i < times.size(); ++i) CHECK(times[i].by == TimingMethod::copies);
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
    const std::vector<KernelTime> times = step.profile(feeds).kernels;
    plain.run(feeds);
    for (const KernelTime& time : times) {
      CAPTURE(time.kernel);
      CHECK(time.by == TimingMethod::records);
      CHECK(time.microseconds >= 1);
    }
    CHECK(times.size() == step.profile(feeds).kernels.size());
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

double flops_of(const std::vector<ProfilePart>& parts, std::string_view name) {
  const auto found = std::ranges::find(parts, name, &ProfilePart::name);
  return found == parts.end() ? -1 : found->flops;
}

TEST_CASE("kernels tell their op, part of the step, scope, bytes and operations") {
  Graph g("net");
  const Value x = g.input("x", f64, {4, 6});
  const Value h = x.scope("tower", [](Value v) {
    return v.repeat(2, [](Value u) { return u.through(linear(6)).through(tanh); });
  });
  const Value y = h.through(linear(2));
  g.minimize(mean(square(y)), Adam{.lr = 1e-2, .clip_norm = 1.0});
  g.average("**", {.decay = 0.9});
  for (const Target& target : {cpu_replay(), device_of_host()}) {
    Executable step = compile(g, target, plain_options());
    const Profile profile = step.profile({{x, at::ones({4, 6}, at::kDouble)}}, {.steps = 3});
    CHECK(profile.steps == 3);
    CHECK(step.replays() == 3);
    for (const KernelTime& kernel : profile.kernels) CHECK(kernel.runs == 1);
    const auto linear = std::ranges::find_if(
        profile.kernels, [](const KernelTime& kernel) { return kernel.path == "tower/0/linear"; });
    REQUIRE(linear != profile.kernels.end());
    CHECK(linear->op == "linear");
    CHECK(linear->phase == Phase::forward);
    CHECK(linear->flops == 2 * 4 * 6 * 6);
    CHECK(linear->bytes == 8 * (4 * 6 + 6 * 6 + 6 + 4 * 6));
    // Products: two layers of 6 to 6 and one of 6 to 2; for gradients of weights, and of inputs but
    // for the first layer's.
    const double forward = 2 * 4 * 6 * (6 + 6 + 2);
    const auto ops = by_op(profile);
    CHECK(flops_of(ops, "linear") == forward);
    CHECK(flops_of(ops, "matmul") == forward + 2 * 4 * 6 * (6 + 2));
    const auto phases = by_phase(profile);
    CHECK(flops_of(phases, "forward") > forward);
    CHECK(flops_of(phases, "backward") > forward);
    CHECK(flops_of(phases, "update") > 0);
    const auto scopes = by_scope(profile), deep = by_scope(profile, 2);
    CHECK(flops_of(scopes, "tower") > 0);
    CHECK(flops_of(scopes, "tower") ==
          doctest::Approx(flops_of(deep, "tower/0") + flops_of(deep, "tower/1")));
    CHECK(flops_of(scopes, "optimizer") > 0);  // counters, rates, clipping
    CHECK(flops_of(scopes, "increment") == -1);
    double us = 0;
    for (const ProfilePart& part : scopes) us += part.microseconds;
    CHECK(us == doctest::Approx(profile.microseconds()));
  }
}

TEST_CASE("evaluations are profiled, too") {
  const Small model;
  CompileOptions options = plain_options();
  options.modes = {train, evaluate};
  for (const Target& target : {cpu_replay(), device_of_host()}) {
    Executable step = compile(model.g, target, options);
    const Profile profile = step.profile(model.feeds(0, 0), {.steps = 2, .mode = evaluate});
    CHECK(step.replays() == 0);
    CHECK(step.steps() == 2);
    for (const KernelTime& kernel : profile.kernels) {
      CHECK((kernel.phase == Phase::forward || kernel.phase == Phase::executor));
    }
    CHECK(to_string(profile).starts_with("graph \"small\", 2 steps to evaluate on "));
    CHECK_THROWS_WITH_AS(step.profile({}, {.steps = 0}),
                         "graph \"small\": profile cannot take 0 steps; give 1 or more", RunError);
  }
}

// Takes a millisecond, but for every fifth run.
struct Stumble {
  static constexpr std::string_view name = "stumble";
  static constexpr bool differentiable = false;
  bool operator==(const Stumble&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
};
CpuKernel bind(const Stumble&, const CpuLaunch&) {
  return CpuKernel([runs = std::make_shared<int>(0)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(++*runs % 5 == 0 ? 100 : 1));
  });
}
Tensors reference(const Stumble&, const Tensors& in) { return in; }

TEST_CASE("a kernel's time is the median of its runs, which few long ones leave as it is") {
  Graph g("g");
  const Value x = g.input("x", f64, {4});
  g.output("y", apply(Stumble{}, {x}, Line::here()));
  CompileOptions options = plain_options();
  options.ops = own_ops<Stumble>();
  Executable step = compile(g, cpu_replay(), options);
  const Profile profile = step.profile({{x, at::ones({4}, at::kDouble)}}, {.steps = 10});
  const auto stumble = std::ranges::find(profile.kernels, "stumble", &KernelTime::op);
  REQUIRE(stumble != profile.kernels.end());
  CHECK(stumble->runs == 1);
  CHECK(stumble->microseconds < 15e3);  // the mean is 21 ms
}

TEST_CASE("a profile says if other programs took a fifth of the cores, where that matters") {
  const Small model;
  for (const double others : {0.1, 0.3}) {
    const tests::Load load(others);
    Executable step = compile(model.g, cpu_replay(), plain_options());
    const Profile profile = step.profile(model.feeds(0, 0));
    CHECK(profile.under_load == (others > 0.2));
    Executable on_device = compile(model.g, device_of_host(), plain_options());
    CHECK_FALSE(on_device.profile(model.feeds(0, 0)).under_load);
  }
}

// Two steps; one branch of two ran in each.
Profile two_steps() {
  const auto kernel = [](const char* op, const char* path, Phase phase, double us, double runs) {
    return KernelTime{.kernel = fmt::format("{} \"{}\" (a.cc:1)", op, path),
                      .op = op,
                      .path = path,
                      .line = "a.cc:1",
                      .phase = phase,
                      .microseconds = us,
                      .runs = runs,
                      .bytes = 1e3 * us / runs,
                      .flops = 2e3 * us / runs};
  };
  return {.graph = "net",
          .where = "2 threads",
          .mode = train,
          .steps = 2,
          .kernels = {kernel("linear", "tower/linear", Phase::forward, 3, 1),
                      kernel("exp", "choose/0/exp", Phase::forward, 0.5, 0.5),
                      kernel("tanh", "choose/1/tanh", Phase::forward, 1.5, 0.5),
                      kernel("matmul", "tower/linear.grad/matmul", Phase::backward, 3, 1),
                      kernel("adam_update", "optimizer/tower/linear/weight/adam_update",
                             Phase::update, 1, 1),
                      {.kernel = "store_reads", .op = "store_reads", .microseconds = 1}}};
}

TEST_CASE("a profile is tables, each longest first") {
  CHECK(to_string(two_steps()) ==
        "graph \"net\", 2 steps to train on 2 threads: 10.0 us a step in kernels, each the median "
        "of its runs, by the host's clock\n"
        "   us a step    share     runs     GB/s  GFLOP/s  part of the step\n"
        "         5.0   50.0 %      2.0      1.0      2.0  forward\n"
        "         3.0   30.0 %      1.0      1.0      2.0  backward\n"
        "         1.0   10.0 %      1.0      1.0      2.0  update\n"
        "         1.0   10.0 %      1.0      0.0      0.0  executor\n"
        "   us a step    share     runs     GB/s  GFLOP/s  scope\n"
        "         7.0   70.0 %      3.0      1.0      2.0  tower\n"
        "         2.0   20.0 %      1.0      1.0      2.0  choose\n"
        "         1.0   10.0 %      1.0      0.0      0.0  (the executor's own)\n"
        "   us a step    share     runs     GB/s  GFLOP/s  line\n"
        "         9.0   90.0 %      4.0      1.0      2.0  a.cc:1\n"
        "         1.0   10.0 %      1.0      0.0      0.0  (no line)\n"
        "   us a step    share     runs     GB/s  GFLOP/s  op\n"
        "         3.0   30.0 %      1.0      1.0      2.0  linear\n"
        "         3.0   30.0 %      1.0      1.0      2.0  matmul\n"
        "         1.5   15.0 %      0.5      1.0      2.0  tanh\n"
        "         1.0   10.0 %      1.0      1.0      2.0  adam_update\n"
        "         1.0   10.0 %      1.0      0.0      0.0  store_reads\n"
        "         0.5    5.0 %      0.5      1.0      2.0  exp\n"
        "   us a step    share     runs     GB/s  GFLOP/s  the longest kernels\n"
        "         3.0   30.0 %      1.0      1.0      2.0  linear \"tower/linear\" (a.cc:1)\n"
        "         3.0   30.0 %      1.0      1.0      2.0  matmul \"tower/linear.grad/matmul\" "
        "(a.cc:1)\n"
        "         1.5   15.0 %      0.5      1.0      2.0  tanh \"choose/1/tanh\" (a.cc:1)\n"
        "         1.0   10.0 %      1.0      1.0      2.0  adam_update "
        "\"optimizer/tower/linear/weight/adam_update\" (a.cc:1)\n"
        "         1.0   10.0 %      1.0      0.0      0.0  store_reads\n"
        "         0.5    5.0 %      0.5      1.0      2.0  exp \"choose/0/exp\" (a.cc:1)\n");
}

TEST_CASE("tables of a profile under load say so") {
  Profile profile = two_steps();
  profile.under_load = true;
  CHECK(to_string(profile).starts_with(
      "graph \"net\", 2 steps to train on 2 threads: 10.0 us a step in kernels, each the median of "
      "its runs, by the host's clock, under load\n"));
}

TEST_CASE("a scope of the user's that begins like the optimizer's is one of its own") {
  Profile profile{.graph = "net", .where = "2 threads", .steps = 1, .kernels = {}};
  for (const char* path : {"optimizers/tanh", "optimizer/increment", "optimizer/net/w/plus"}) {
    profile.kernels.push_back({.kernel = path, .op = "op", .path = path, .microseconds = 1});
  }
  std::vector<std::string> scopes;
  for (const ProfilePart& part : by_scope(profile)) scopes.push_back(part.name);
  CHECK(scopes == std::vector<std::string>{"optimizers", "optimizer", "net"});
}

TEST_CASE("unrolled code is told apart by its lines, and all lines add up") {
  Profile profile{.graph = "net", .where = "2 threads", .steps = 1, .kernels = {}};
  for (int i = 0; i < 1000; ++i) {
    const int line = i % 25;
    profile.kernels.push_back({.kernel = fmt::format("exp \"repeat/{}/exp\"", i),
                               .op = "exp",
                               .path = fmt::format("repeat/{}/exp", i),
                               .line = fmt::format("net.cc:{}", line),
                               .microseconds = line == 7 ? 1 : 0.5});
  }
  const std::string text = to_string(profile);
  CHECK(text.find("       520.0  100.0 %   1000.0      0.0      0.0  repeat\n") != text.npos);
  CHECK(text.find("        40.0    7.7 %     40.0      0.0      0.0  net.cc:7\n") != text.npos);
  CHECK(text.find("       100.0   19.2 %    200.0      0.0      0.0  5 others\n") != text.npos);
  CHECK(by_line(profile).size() == 25);
}

TEST_CASE("a fused group tells its members, and a kernel its line") {
  Graph g("net");
  const Value x = g.input("x", f32, {64, 64});
  const Value product = exp(x) * x;
  g.output("y", product + x * 2.0);
  Executable step = compile(g, cpu_replay(), plain_options());
  const Profile profile = step.profile({{x, at::ones({64, 64})}});
  const auto group = std::ranges::find(profile.kernels, "group", &KernelTime::op);
  REQUIRE(group != profile.kernels.end());
  CHECK(group->members == "exp, mul (2), add");
  CHECK(group->line.find("profile_test.cc:") != std::string::npos);
  const auto ops = by_op(profile);
  CHECK(std::ranges::find(ops, "group of exp, mul (2), add", &ProfilePart::name) != ops.end());
}

TEST_CASE("a plan's record takes the times of a profile, of the plan that ran") {
  const Small model;
  CompileOptions options = plain_options();
  options.modes = {train, evaluate};
  Executable step = compile(model.g, cpu_replay(), options);
  CHECK((step.plan_record().times == RecordedTimes()));
  for (const Mode mode : {train, evaluate}) {
    const Profile profile = step.profile(model.feeds(0, 0), {.steps = 2, .mode = mode});
    const RecordedTimes times = step.plan_record(profile).times;
    CHECK(times.steps == 2);
    CHECK((times.kernels == profile.kernels));
    CHECK(step.report().plans.at(times.plan).mode == mode);
    CHECK(times.step_microseconds == 0);
  }
}

TEST_CASE("only the ten longest kernels are shown; several ways of timing are counted") {
  Profile profile{.graph = "net", .where = "a GPU", .steps = 1, .kernels = {}};
  for (int i = 0; i < 12; ++i) {
    profile.kernels.push_back({.kernel = fmt::format("exp \"exp_{}\" (a.cc:1)", i),
                               .op = "exp",
                               .path = fmt::format("exp_{}", i),
                               .microseconds = 1.0 + i,
                               .by = TimingMethod::copies});
  }
  profile.kernels[1].by = TimingMethod::launches;
  const std::string text = to_string(profile);
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("\"exp_{}\"", i);
    CAPTURE(name);
    CHECK((text.find(name) != std::string::npos) == (i >= 2));
  }
  CHECK(text.starts_with(
      "graph \"net\", 1 step to train on a GPU: 78.0 us a step in kernels, each the median of its "
      "runs, by copies in a graph (11), launches (1)\n"));
}

TEST_CASE("a report lists all values at the fullest moment, with their lines") {
  const Small model;
  const Executable step = compile(model.g, cpu_replay(), plain_options());
  const PlanReport& plan = step.report().plan(train);
  REQUIRE(plan.held.size() > 2);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < plan.held.size(); ++i) {
    if (i > 0) CHECK(plan.held[i].bytes <= plan.held[i - 1].bytes);
    bytes += plan.held[i].bytes;
  }
  CHECK(bytes <= plan.arena_bytes);
  CHECK(plan.largest(2).size() == 2);
  CHECK(plan.largest(1000).size() == plan.held.size());
  CHECK(plan.held[0].line.find("profile_test.cc:") != std::string::npos);
  CHECK(plan.largest()[0].ends_with(fmt::format("{} ({})", plan.held[0].path, plan.held[0].line)));
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
