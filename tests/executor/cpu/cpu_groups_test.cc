// Elementwise chains as one kernel on a CPU: the same bits as one by one, less memory.
#include <string>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/settings_of.h"
#include "tests/executor/targets.h"

namespace metronome::cpu_groups_test {
namespace {

void fuses_not(Settings& settings) { settings.fuse.takes = nullptr; }

// x [rows, width] -- gates of a few ops each -- mean -- Sgd, with a scale of [width]
struct Gated {
  Gated(std::int64_t rows, std::int64_t width) : rows(rows), width(width) {
    const Value scale = graph.parameter("scale", {f32, {width}}, constant(0.7));
    Value h = x * scale;
    h = h * sigmoid(h * 1.702);
    h = square(relu(h)) + h * 0.5;
    h = where(h > x, h, tanh(h) * x);
    const Value halves = concat({h.slice(1, 1, width), h.slice(1, 0, 1) * 2.0}, 1);
    graph.output("h", h);
    graph.minimize(mean(square(halves + x)), Adam{.lr = 1e-2});
  }
  void run(Executable& step, int number) const {
    const auto numbers = at::arange(rows * width, at::TensorOptions(at::kFloat));
    step.run({{"x", at::sin(numbers * 0.37 + number).reshape({rows, width})}});
  }
  std::int64_t rows, width;
  Graph graph{"gated"};
  Value x = graph.input("x", f32, {rows, width});
};

CompileOptions with_threads(int threads) {
  CompileOptions options = tests::plain_options();
  options.threads = threads;
  options.poison = true;
  return options;
}

TEST_CASE("a chain is fewer kernels, and its bits are those of its ops") {
  for (const auto& [rows, width] :
       {std::pair{300, 1001}, {257, 40}, {3000, 1}, {1, 5000}, {32, 65}}) {
    CAPTURE(rows);
    CAPTURE(width);
    const Gated model(rows, width);
    Executable apart = compile(model.graph, changed<cpu_replay, fuses_not>(), with_threads(1));
    for (const int threads : {1, 3}) {
      CAPTURE(threads);
      Executable together = compile(model.graph, cpu_replay(), with_threads(threads));
      const PlanReport &less = together.report().plan(train), &more = apart.report().plan(train);
      CHECK(less.kernels * 2 < more.kernels);
      Executable again = compile(model.graph, changed<cpu_replay, fuses_not>(), with_threads(1));
      for (int step = 0; step < 3; ++step) {
        for (Executable* e : {&together, &again}) model.run(*e, step);
        CHECK(at::equal(together.read("h"), again.read("h")));
      }
      for (const std::string& path : together.storages()) {
        CAPTURE(path);
        CHECK(at::equal(together.get(path), again.get(path)));
      }
    }
  }
}

TEST_CASE("what a chain makes on its way takes no memory") {
  Graph graph("chain");
  Value h = graph.input("x", f32, {100, 1000});
  for (int i = 0; i < 6; ++i) h = h * sigmoid(h * 1.5);
  graph.output("h", h);
  const CompileOptions options = tests::plain_options();
  const Executable together = compile(graph, cpu_replay(), options);
  const Executable apart = compile(graph, changed<cpu_replay, fuses_not>(), options);
  CHECK(together.report().plans.at(0).kernels <= 2);
  CHECK(apart.report().plans.at(0).kernels >= 18);
  CHECK(together.report().arena_bytes < 100'000);    // the strips of a thread
  CHECK(apart.report().arena_bytes >= 2 * 400'000);  // of h and of what is made of it
}

TEST_CASE("who watches or observes sees every op") {
  const Gated model(64, 64);
  CompileOptions watched = with_threads(1);
  watched.watch = true;
  const Executable apart = compile(model.graph, changed<cpu_replay, fuses_not>(), with_threads(1));
  const Executable seen = compile(model.graph, cpu_replay(), watched);
  CHECK(seen.report().plan(train).kernels == apart.report().plan(train).kernels);
}

}  // namespace
}  // namespace metronome::cpu_groups_test
