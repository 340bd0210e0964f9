// The CUDA executor on a driver that writes down what it is asked for: what a device would run.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/cuda/driver/null_driver.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "models/models.h"
#include "tests/doctest.h"
#include "tests/executor/logged.h"

namespace metronome::cuda_null_test {
namespace {

using Lines = std::vector<std::string>;

std::size_t count(const Lines& lines, std::string_view begin) {
  return static_cast<std::size_t>(std::count_if(
      lines.begin(), lines.end(), [&](const std::string& l) { return l.starts_with(begin); }));
}

CompileOptions both_modes() {
  CompileOptions options;
  options.modes = {Mode::train, Mode::evaluate};
  options.tune = Tune::off;
  return options;
}

/// A graph compiled for a driver that the test holds too.
struct Compiled {
  std::shared_ptr<NullDriver> driver = std::make_shared<NullDriver>();
  Executable step;
  Compiled(const Graph& graph, CudaOptions cuda, CompileOptions options = both_modes())
      : step(compile(graph, on(driver, cuda), options)) {}

 private:
  static Target on(std::shared_ptr<NullDriver> driver, CudaOptions cuda) {
    Target target = cuda_graph(cuda);
    target.driver = std::move(driver);
    return target;
  }
};

TEST_CASE("a step is one launch of one graph, and takes nothing after compile") {
  for (const models::ModelEntry& entry : models::all_models()) {
    const models::Model model = entry.make(models::Scale::small, f32);
    Compiled compiled(model.graph, {.streams = 1});
    const Lines build = compiled.driver->record_lines();
    INFO(entry.name);
    // For training and for evaluation, and again with conditions, flat and nested, where something
    // is conditional.
    const int captures = count(build, "if on stream") > 0 ? 6 : 2;
    CHECK(count(build, "begin capture") == captures);
    CHECK(count(build, "end capture") == captures);
    compiled.driver->clear_record();
    std::vector<Feed> feeds;
    for (const Value& input : model.inputs) {
      const bool tokens = input.element() == i64;
      feeds.emplace_back(input, at::ones(input.type().shape, tokens ? at::kLong : at::kFloat));
    }
    for (int i = 0; i < 3; ++i) {
      compiled.step.run(feeds);
      compiled.step.evaluate();
    }
    const Lines run = compiled.driver->record_lines();
    CHECK(count(run, "launch graph") == 6);
    CHECK(count(run, "record event") == 6);  // one a step: its end
    CHECK(run.size() == 12);                 // and nothing else: small feeds take no copy
  }
}

TEST_CASE("large feeds are copied ahead, on a stream of their own, which the step waits for") {
  Graph g("large");
  const Value x = g.input("x", f32, {256, 1024});
  g.output("y", sum(x));
  Compiled compiled(g, {}, [] {
    CompileOptions options = both_modes();
    options.modes = {Mode::evaluate};
    return options;
  }());
  compiled.driver->clear_record();
  compiled.step.evaluate({{x, at::ones({256, 1024})}});
  const Lines run = compiled.driver->record_lines();
  REQUIRE(run.size() == 5);
  CHECK(run[0].starts_with("upload 1048576 bytes on stream "));
  CHECK(run[0] != "upload 1048576 bytes on stream 1");
  CHECK(run[1].starts_with("record event "));
  CHECK(run[2].starts_with("wait for event "));
  CHECK(run[3].starts_with("launch graph 0 on stream 1"));
  CHECK(run[4].starts_with("record event "));
  // An input that is not fed is not copied again.
  compiled.driver->clear_record();
  compiled.step.evaluate();
  CHECK(count(compiled.driver->record_lines(), "upload") == 0);
}

TEST_CASE("streams are held together by events only where branches part and join") {
  const models::Model model = models::gated_routing(models::Scale::small, f32);
  Compiled one(model.graph, {.streams = 1});
  CHECK(count(one.driver->record_lines(), "record event") == 0);
  CHECK(count(one.driver->record_lines(), "wait for event") == 0);

  Compiled several(model.graph, {.streams = 4});
  const Lines lines = several.driver->record_lines();
  std::set<std::string> recorded, waited;
  for (const std::string& line : lines) {
    const auto event = [&](std::string_view begin) {
      return line.substr(begin.size(), line.find(' ', begin.size()) - begin.size());
    };
    if (line.starts_with("record event ")) recorded.insert(event("record event "));
    if (line.starts_with("wait for event ")) waited.insert(event("wait for event "));
  }
  CHECK_FALSE(recorded.empty());
  CHECK(recorded == waited);  // none that nothing waits for, none that never happens
}

TEST_CASE(
    "fusing and batching leave a fraction of the kernels, each of them a node of the graph or in "
    "place") {
  for (const models::ModelEntry& entry : models::all_models()) {
    const models::Model model = entry.make(models::Scale::small, f32);
    const Compiled fused(model.graph, {}), plain(model.graph, {.fuse = false});
    const PlanReport& a = fused.step.report().plan(Mode::train);
    const PlanReport& b = plain.step.report().plan(Mode::train);
    fmt::print("{}: {} kernels as declared, {} planned, {} fused; {} graph nodes\n", entry.name,
               a.kernels_declared, b.kernels, a.kernels, a.graph_nodes);
    INFO(entry.name);
    CHECK(a.kernels < b.kernels);
    // A concat whose operands lie in its result launches nothing.
    CHECK(a.kernels_in_place <= a.kernels / 20);
    CHECK(a.graph_nodes >= static_cast<int>(a.kernels - a.kernels_in_place));
    CHECK(a.forms.size() >= 2);
  }
}

TEST_CASE("the updates of many small parameters are one launch") {
  Graph g("deep");
  const Value x = g.input("x", f32, {8, 16});
  Value h = x;
  for (int i = 0; i < 24; ++i) h = tanh(h.through(linear(16)));
  g.minimize(mse_loss(h, x), Adam{.lr = 1e-3});
  CompileOptions options = both_modes();
  options.modes = {Mode::train};
  const Compiled compiled(g, {.streams = 1}, options);
  const Lines lines = compiled.driver->record_lines();
  const std::size_t steps = count(lines, "store_reads");  // enqueued, and captured
  CHECK(steps == 2);
  CHECK(count(lines, "adam_update") == steps);
}

TEST_CASE("a constant is no part of a step, unless somebody asks for it, or it is large") {
  const auto nodes = [](std::int64_t size, bool asked) {
    Graph g("constants");
    const Value x = g.input("x", f32, {4, size});
    const Type type{f32, {size, size}};
    const std::vector<double> numbers(static_cast<std::size_t>(size * size), 0.5);
    const Value weight = g.constant(numbers, type), row = weight.slice(0, 1, 2);
    g.output("y", matmul(x, weight));
    g.output("z", matmul(x, row.reshape({size, 1})));
    if (asked) g.output("row", row);
    CompileOptions options = both_modes();
    options.modes = {Mode::evaluate};
    return Compiled(g, {.streams = 1}, options).step.report().plan(Mode::evaluate).graph_nodes;
  };
  const int rest = nodes(8, false);  // two products, what loads inputs and what stores numbers
  CHECK(nodes(8, true) > rest);
  CHECK(nodes(600, false) == rest + 1);
}

/// How often the passes are run that differ between plans of a training step: `layers` of width x
/// width over `rows` rows.
int plans_made(std::int64_t rows, std::int64_t width, int layers) {
  Graph g("plans");
  Value h = g.input("x", f32, {rows, width});
  const Value target = g.input("target", f32, {rows, width});
  for (int i = 0; i < layers; ++i) h = h.through(linear(width)).through(tanh);
  g.minimize(mse_loss(h, target), Sgd{.lr = 0.1});
  CompileOptions options = both_modes();
  options.modes = {Mode::train};
  const auto level = executor::logger().level();
  executor::logger().set_level(spdlog::level::debug);
  const tests::Logged logged;
  const Compiled compiled(g, {.streams = 1}, options);
  executor::logger().set_level(level);
  const std::string text = logged.text(), made = "plans train after fuse: ";
  int count = 0;
  for (std::size_t at = 0; (at = text.find(made, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_CASE("updates go into more batches only where the memory of gradients may be worth it") {
  CHECK(plans_made(1 << 16, 32, 8) == 1);  // 8 MiB a layer, 4 KiB of gradients
  CHECK(plans_made(4, 1024, 24) > 1);      // 96 MiB of gradients, and next to nothing else
}

/// A call of a library that no driver was told of.
struct Fold {
  static constexpr std::string_view name = "fold";
  static constexpr Maker maker = Maker::own;
  std::optional<Algorithm> algorithm = {};
  std::string text() const { return "of nothing"; }
  std::vector<LibraryOperand> operands() const { return {}; }
  void check() const {}
};

TEST_CASE("any call of a library is written down, and offered one way") {
  NullDriver driver;
  const CudaStream stream = driver.make_stream();
  driver.prepare(Fold{});
  driver.enqueue(Fold{}, stream);
  CHECK(driver.record_lines().back() == "fold of nothing on stream 0");
  REQUIRE(driver.candidates(Fold{}).size() == 1);
  CHECK(driver.candidates(Fold{})[0].maker == Maker::own);
}

TEST_CASE("memory that is not held, or no longer, is not released in silence") {
  NullDriver driver;
  std::byte* memory = driver.device_memory(64);
  driver.release(memory);
  driver.release(memory);
  CHECK(driver.record_lines() ==
        Lines{"memory 64 bytes", "release", "release of memory that is not held"});
}

TEST_CASE("what cannot be asked of a device is refused with the values in it") {
  Graph g("refused");
  const Value x = g.input("x", f32, {2});
  const Value y = sum(x);
  g.output("y", y);
  CHECK_THROWS_WITH_AS(compile(g, null({.slots = 0})),
                       "graph \"refused\": CudaOptions::slots is 0; give 1 or more", RunError);
  CHECK_THROWS_WITH_AS(compile(g, null({.streams = 0})),
                       "graph \"refused\": CudaOptions::streams is 0; give 1 or more", RunError);
  CHECK_THROWS_WITH_AS(compile(g, cuda_graph({.device = -1})),
                       "graph \"refused\": CudaOptions::device is -1; give 0 or more", RunError);
  Executable step = compile(g, null());
  step.run({{x, at::zeros({2})}});
  CHECK_THROWS_WITH_AS(step.read_scalar(y), "nothing can be read: the target null computes nothing",
                       RunError);
  CHECK_THROWS_WITH_AS(step.read_scalar(y, 1),
                       "step 1 cannot be read: it was not run; the last step is 0", RunError);
}

}  // namespace
}  // namespace metronome::cuda_null_test
