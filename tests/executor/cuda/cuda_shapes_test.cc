// Several batch shapes of one model on a device: one captured graph each, one set of storages.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/driver/null_driver.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

namespace metronome::cuda_shapes_test {
namespace {

struct Net {
  explicit Net(std::int64_t batch) {
    x = g.input("x", f32, {batch, 5});
    t = g.input("t", f32, {batch, 3});
    // A bias before batch norm would have no gradient but rounding, which Adam makes whole steps
    // of.
    y = x.through(batch_norm())
            .through(linear(8))
            .through(gelu)
            .through(dropout(0.3))
            .through(linear(3));
    g.output("y", y);
    g.minimize(mse_loss(y, t), AdamW{.lr = 1e-2, .clip_norm = 0.5});
  }
  Graph g{"net"};
  Value x, t, y;
};

at::Tensor numbers(at::IntArrayRef shape, int salt) {
  const at::Tensor n = at::arange(c10::multiply_integers(shape), at::TensorOptions(at::kDouble));
  return at::sin(n * 0.7 + salt).reshape(shape).to(at::kFloat);
}

CompileOptions untuned(std::vector<Mode> modes = {train, evaluate}) {
  CompileOptions options;
  options.modes = std::move(modes);
  options.tune = Tune::off;
  options.seed = 7;
  return options;
}

Target on(std::shared_ptr<CudaDriver> driver, Target target) {
  target.driver = std::move(driver);
  return target;
}

std::shared_ptr<HostDriver> host(std::uint64_t seed) {
  return std::make_shared<HostDriver>(HostSettings{.seed = seed});
}

TEST_CASE("two shapes in turn: replay is stepwise to the bit, and trains as the CPU does") {
  const Net large(6), small(2);
  const auto driver = host(5);
  Executable replay = compile({&large.g, &small.g}, on(driver, cuda_graph()), untuned());
  Executable steps = compile({&large.g, &small.g}, on(host(1), stepwise(cuda_device())), untuned());
  Executable cpu_step = compile({&large.g, &small.g}, cpu_replay(), untuned());
  Executable* all[] = {&replay, &steps, &cpu_step};
  for (int i = 0; i < 12; ++i) {
    CAPTURE(i);
    const std::int64_t rows = i % 3 == 1 ? 2 : 6;
    for (Executable* step : all) {
      step->run({{small.x, numbers({rows, 5}, i)}, {small.t, numbers({rows, 3}, -i)}});
    }
    REQUIRE(replay.read_scalar(large.g.loss()) == steps.read_scalar(large.g.loss()));
    CHECK(replay.read(large.y).equal(steps.read(large.y)));
    CHECK(replay.read_scalar(large.g.loss()) ==
          doctest::Approx(cpu_step.read_scalar(large.g.loss())).epsilon(1e-3));
  }
  for (const std::string& path : steps.storages()) {
    CAPTURE(path);
    CHECK(replay.get(path).equal(steps.get(path)));
  }
  for (const Net* net : {&small, &large}) {
    for (Executable* step : all) {
      step->input(net->x);  // picks what was fed before
      step->evaluate();
    }
    CHECK(replay.read("y").sizes() == at::IntArrayRef(net->y.shape()));
    CHECK(replay.read("y").equal(steps.read("y")));
  }
  CHECK(replay.replays() == 12);
  CHECK(replay.updates() == 12);
  CHECK(replay.report().arena_bytes == std::max(replay.report().plan(train, 0).arena_bytes,
                                                replay.report().plan(evaluate, 0).arena_bytes));
  driver->check();
}

/// sum of x, in two shapes.
struct Sums {
  explicit Sums(std::int64_t n) {
    x = g.input("x", f32, {n});
    y = sum(x);
    g.output("y", y);
  }
  Graph g{"sums"};
  Value x, y;
};

TEST_CASE("steps in flight keep their numbers, whatever shape each was of") {
  const Sums four(4), two(2);
  Executable step =
      compile({&four.g, &two.g}, on(host(2), cuda_graph({.slots = 3})), untuned({train, evaluate}));
  step.run({{"x", at::full({4}, 1.0)}});
  step.run({{"x", at::full({2}, 10.0)}});
  step.evaluate({{"x", at::full({4}, 100.0)}});
  CHECK(step.read_scalar(four.y, 0) == 4);
  CHECK(step.read_scalar(four.y, 1) == 20);
  CHECK(step.read_scalar(two.y, 2) == 400);
  CHECK(step.read_scalar(two.y) == 400);
  CHECK_THROWS_WITH_AS(step.run({{"x", at::ones({3})}}),
                       "graph \"sums\": x [3] is of no declared batch shape, which are\n"
                       "  x [4]\n"
                       "  x [2]\n"
                       "nearest: x [4]; pad to it or declare it",
                       RunError);
  at::Tensor in_place = step.input(two.x);
  in_place.fill_(3);
  step.run();
  CHECK(step.read_scalar(two.y) == 6);
  step.run({{"x", at::full({4}, 2.0)}});
  CHECK(step.read_scalar(two.y) == 8);
  step.input(two.x);
  step.run();  // each shape holds its own
  CHECK(step.read_scalar(two.y) == 6);
  CHECK(step.input(four.x).equal(at::full({4}, 2.0)));  // handed out first after it was fed
  step.run();
  CHECK(step.read_scalar(two.y) == 8);
}

TEST_CASE("a step that does not compute a value says so") {
  Net large(6), small(2);
  const Value ours = large.g.gradient(large.y), theirs = small.g.gradient(small.y);
  Executable step = compile({&large.g, &small.g}, on(host(2), cuda_graph()), untuned());
  step.run({{"x", numbers({6, 5}, 0)}, {"t", numbers({6, 3}, 1)}});
  CHECK(step.read(theirs).sizes() == at::IntArrayRef({6, 3}));
  step.evaluate({{"x", numbers({2, 5}, 0)}, {"t", numbers({2, 3}, 1)}});
  CHECK(step.read(ours).sizes() == at::IntArrayRef({6, 3}));
  CHECK_THROWS_WITH_AS(step.read_scalar(ours, 1),
                       "graph \"net\": step 1 was one to evaluate, which computes no \"gradient of "
                       "linear_1\"",
                       RunError);
}

TEST_CASE("a number that is not finite is named in the plan of any shape") {
  const auto declare = [](std::int64_t n) {
    Graph g("infinite");
    const Value x = g.input("x", f32, {n});
    g.output("y", sum(n == 2 ? log(x) : sqrt(x)));
    return g;
  };
  const Graph four = declare(4), two = declare(2);
  CompileOptions options = untuned();
  options.watch = true;
  Executable step = compile({&four, &two}, on(host(2), cuda_graph({.fuse = false})), options);
  step.run({{"x", at::zeros({4})}});
  CHECK_FALSE(step.fault().has_value());
  step.evaluate({{"x", at::zeros({2})}});
  REQUIRE(step.fault().has_value());
  CHECK(step.fault()->starts_with("log \"log\" ("));
  CHECK(step.fault()->ends_with("): made an infinity"));
}

TEST_CASE("a step launches the graph of its shape and copies that shape's feeds alone") {
  const auto declare = [](std::int64_t n) {
    Graph g("large");
    g.output("y", sum(g.input("x", f32, {n, 1024})));
    return g;
  };
  const Graph large = declare(256), small = declare(64);
  const auto driver = std::make_shared<NullDriver>();
  Executable step =
      compile({&large, &small}, on(driver, cuda_graph({.streams = 1})), untuned({evaluate}));
  using Lines = std::vector<std::string>;
  const auto count = [&](std::string_view begin) {
    const Lines lines = driver->record_lines();
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& l) { return l.starts_with(begin); });
  };
  CHECK(count("begin capture") == 2);
  driver->clear_record();
  step.evaluate({{"x", at::ones({64, 1024})}});
  CHECK(count("launch graph 1 ") == 1);
  CHECK(count("upload 262144 bytes") == 1);
  CHECK(count("upload") == 1);
  driver->clear_record();
  step.evaluate({{"x", at::ones({256, 1024})}});
  CHECK(count("launch graph 0 ") == 1);
  CHECK(count("upload 1048576 bytes") == 1);
  CHECK(count("upload") == 1);
}

}  // namespace
}  // namespace metronome::cuda_shapes_test
