// The CUDA executor, whole, on a device made of the host: what it binds, orders, captures and
// replays computes what the CPU's executor does.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "models/models.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::cuda_host_test {
namespace {

CompileOptions untuned(std::vector<Mode> modes = {Mode::train}) {
  CompileOptions options;
  options.modes = std::move(modes);
  options.tune = Tune::off;
  options.seed = 7;
  return options;
}

CompileOptions watching() {
  CompileOptions options = untuned();
  options.watch = true;
  return options;
}

Target on(std::shared_ptr<CudaDriver> driver, Target target) {
  target.driver = std::move(driver);
  return target;
}

std::shared_ptr<HostDriver> host(std::optional<std::uint64_t> seed = {}, bool lazy = false) {
  return std::make_shared<HostDriver>(HostSettings{.lazy = lazy, .seed = seed});
}

/// Below the vocabulary of every model that is fed tokens.
at::Tensor numbers(const Type& type, int salt, std::int64_t vocabulary = 1) {
  const at::Tensor x = at::arange(type.numel(), at::TensorOptions(at::kDouble));
  if (type.element == i64) {
    return (x.to(at::kLong) * 7 + salt).remainder(vocabulary).reshape(type.shape);
  }
  return at::sin(x * 0.7 + salt)
      .reshape(type.shape)
      .to(type.element == f64 ? at::kDouble : at::kFloat);
}

/// Before a batch norm a bias has no gradient but rounding, nor has that of attention's keys; Adam
/// makes a step of it. f64's is so small that Adam's eps swallows it.
bool has_idle_bias(const models::Model& model) {
  return std::ranges::any_of(model.graph.data().storages(), [](const Storage& storage) {
    return storage.path.ends_with("running_mean") || storage.path.ends_with("in_proj_bias");
  });
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const double scale = std::max(y.abs().max().item<double>(), 1e-3);
  return (x - y).abs().max().item<double>() / scale;
}

TEST_CASE("models train as on the CPU, whatever order the device is free to take") {
  for (const models::ModelEntry& entry : models::all_models()) {
    models::Model model = entry.make(models::Scale::small, f32);
    if (has_idle_bias(model)) model = entry.make(models::Scale::small, f64);
    const auto driver = host(11);
    Executable device = compile(model.graph, on(driver, cuda_graph()), untuned());
    Executable cpu_step = compile(model.graph, cpu_replay(), untuned());
    INFO(entry.name);
    for (int step = 0; step < 3; ++step) {
      std::vector<Feed> feeds;
      for (const Value& input : model.inputs) {
        feeds.emplace_back(input, numbers(input.type(), 2 * step + static_cast<int>(feeds.size()),
                                          model.vocabulary));
      }
      device.run(feeds);
      cpu_step.run(feeds);
      const double loss = cpu_step.read_scalar(model.graph.loss());
      CHECK(device.read_scalar(model.graph.loss()) == doctest::Approx(loss).epsilon(1e-5));
    }
    CHECK(device.replays() == 3);
    CHECK(device.updates() == 3);
    double worst = 0;
    for (const std::string& path : cpu_step.storages()) {
      // Adam divides by a gradient's size: where a gradient is nearly zero its rounding counts
      // whole.
      if (path.starts_with("optimizer/")) continue;
      worst = std::max(worst, distance(device.get(path), cpu_step.get(path)));
    }
    fmt::print("{}: parameters differ by {:.1e} of the largest after 3 steps; {}\n", entry.name,
               worst, device.report().plan(Mode::train).forms.front());
    CHECK(worst < 2e-3);
    driver->check();
  }
}

/// Batch norm, dropout, a schedule, clipping: everything that a step could freeze or leave behind.
struct Stateful {
  Graph g{"stateful"};
  Value x = g.input("x", f32, {6, 5});
  Value t = g.input("t", f32, {6, 3});
  Value y = x.through(linear(8))
                .through(batch_norm())
                .through(gelu)
                .through(dropout(0.3))
                .through(linear(3));
  Stateful() {
    g.minimize(mse_loss(y, t), AdamW{.lr = rate(), .clip_norm = 0.5});
    g.output("y", y);
  }
  static LearningRate rate() {
    return LearningRate(LinearWarmup{.lr = 1e-2, .steps = 5, .start = 0.1})
        .then(5, Cosine{.lr = 1e-2, .steps = 100});
  }
};

TEST_CASE("warm-up, acceptance and timing leave all storage as it was") {
  Stateful s;
  const Executable device = compile(s.g, on(host(3), cuda_graph()), untuned());
  const Executable fresh = compile(s.g, cpu_replay(), untuned());
  for (const std::string& path : fresh.storages()) {
    INFO(path);
    CHECK(device.get(path).equal(fresh.get(path)));
  }
  CHECK(device.steps() == 0);
}

TEST_CASE("a hundred replayed steps are a hundred stepwise ones, to the bit: nothing is frozen") {
  Stateful s;
  const std::vector<Mode> modes = {Mode::train, Mode::evaluate};
  Executable replay = compile(s.g, on(host(5), cuda_graph()), untuned(modes));
  Executable steps = compile(s.g, on(host(), stepwise(cuda_device())), untuned(modes));
  for (int step = 0; step < 100; ++step) {
    const at::Tensor x = numbers(s.x.type(), step), t = numbers(s.t.type(), -step);
    replay.run({{s.x, x}, {s.t, t}});
    steps.run({{s.x, x}, {s.t, t}});
    REQUIRE(replay.read_scalar(s.g.loss()) == steps.read_scalar(s.g.loss()));
  }
  for (const std::string& path : steps.storages()) {
    INFO(path);
    CHECK(replay.get(path).equal(steps.get(path)));
  }
  replay.evaluate();
  steps.evaluate();
  CHECK(replay.read("y").equal(steps.read("y")));
  CHECK(replay.replays() == 100);
}

TEST_CASE("fused gives the same bits as unfused") {
  Stateful s;
  Executable fused = compile(s.g, on(host(), cuda_graph()), untuned());
  Executable plain = compile(s.g, on(host(), cuda_graph({.fuse = false})), untuned());
  for (int step = 0; step < 5; ++step) {
    const at::Tensor x = numbers(s.x.type(), step), t = numbers(s.t.type(), -step);
    fused.run({{s.x, x}, {s.t, t}});
    plain.run({{s.x, x}, {s.t, t}});
    CHECK(fused.read_scalar(s.g.loss()) == plain.read_scalar(s.g.loss()));
    for (const std::string& path : fused.storages()) {
      CAPTURE(path);
      CHECK(fused.get(path).equal(plain.get(path)));
    }
  }
  CHECK(fused.report().plan(Mode::train).kernels < plain.report().plan(Mode::train).kernels);
}

TEST_CASE("the last steps' numbers are kept, each its own; older ones are refused") {
  Graph g("kept");
  const Value x = g.input("x", f32, {4});
  const Value y = sum(x);
  g.output("y", y);
  Executable step = compile(g, on(host({}, true), cuda_graph({.slots = 3})), untuned());
  for (int i = 0; i < 5; ++i) step.run({{x, at::full({4}, double(i))}});
  CHECK(step.read_scalar(y, 4) == 16);
  CHECK(step.read_scalar(y, 2) == 8);
  CHECK_THROWS_WITH_AS(step.read_scalar(y, 1),
                       "step 1 cannot be read any more: the values of 3 steps are kept, and the "
                       "last step is 4",
                       RunError);
  CHECK(step.read_scalar(y) == 16);
  step.run();  // not fed: it keeps what it held
  CHECK(step.read_scalar(y) == 16);
  step.input(x).fill_(2);
  step.run();
  CHECK(step.read_scalar(y) == 8);
}

TEST_CASE("a replay neither allocates nor synchronises, and is one launch") {
  const models::Model model = models::feedback_fixed(models::Scale::small, f32);
  const auto driver = host();
  Executable step = compile(model.graph, on(driver, cuda_graph()), untuned());
  const at::Tensor x = numbers(model.inputs[0].type(), 0), t = numbers(model.inputs[1].type(), 1);
  step.run({{model.inputs[0], x}, {model.inputs[1], t}});
  const HostCounts before = driver->counts();
  step.run({{model.inputs[0], x}, {model.inputs[1], t}});
  CHECK(step.read_scalar(model.graph.loss()) > 0);
  HostCounts expected = before;
  ++expected.launches;
  CHECK(driver->counts() == expected);
}

TEST_CASE("a failure while capturing names the node, its path and the user's line") {
  Graph g("fails");
  const Value x = g.input("x", f32, {4});
  const Line line = Line::here();
  const Value y = softmax(x).named("hot");
  g.output("y", y);
  const auto driver = host();
  bool capturing = false;
  int softmaxes = 0;
  driver->on_enqueue = [&](const Command& command, CudaStream) {
    // The first is warm-up.
    capturing = name_of(command) == "softmax" && ++softmaxes > 1;
    if (capturing) throw RunError("CUDA: out of resources");
  };
  const std::string message = tests::error_of<RunError>(
      [&] { compile(g, on(driver, cuda_graph({.fuse = false})), untuned()); });
  CHECK(message == fmt::format("capturing softmax {{axis=-1}} \"softmax\" ({}:{}): CUDA: out of "
                               "resources",
                               line.file, line.number + 1));
}

TEST_CASE("the first node that meets a number that is not finite is named") {
  Graph g("infinite");
  const Value x = g.input("x", f32, {4});
  const Value y = log(x) + 1.0;
  g.output("y", sum(y));
  Executable step = compile(g, on(host(), cuda_graph({.fuse = false})), watching());
  step.run({{x, at::ones({4})}});
  CHECK_FALSE(step.fault().has_value());
  step.run({{x, at::zeros({4})}});
  REQUIRE(step.fault().has_value());
  CHECK(step.fault()->starts_with("log \"log\" ("));
  CHECK(step.fault()->ends_with("): made an infinity"));
  step.run({{x, at::ones({4})}});
  CHECK(step.fault().has_value());  // it sticks
}

}  // namespace
}  // namespace metronome::cuda_host_test
