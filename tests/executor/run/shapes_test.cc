// Several batch shapes of one model: plans of their own, one set of weights, moments and counters.
//
//   x [8, 6] ---.                       .-- plan for 8 rows --.
//   x [3, 6] ---+-- the feed picks one --+-- plan for 3 rows --+-- one arena, one storage
#include <fmt/format.h>

#include <algorithm>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::shapes_test {
namespace {

/// Batch norm, dropout, a schedule, clipping and moments, in f64.
struct Net {
  explicit Net(std::int64_t batch) {
    x = g.input("x", f64, {batch, 6});
    t = g.input("t", f64, {batch, 3});
    scale = g.input("scale", f64, {});
    // A bias before batch norm would have no gradient but rounding, which Adam makes whole steps
    // of.
    const Value h = x.through(batch_norm()).through(linear(8)).through(gelu).through(dropout(0.2));
    y = h.through(linear(3)) * scale;
    g.output("y", y);
    g.minimize(mse_loss(y, t),
               AdamW{.lr = LinearWarmup{.lr = 1e-2, .steps = 5, .start = 0.1}, .clip_norm = 0.5});
  }
  Graph g{"net"};
  Value x, t, scale, y;
};

at::Tensor numbers(at::IntArrayRef shape, int salt) {
  const at::Tensor n = at::arange(c10::multiply_integers(shape), at::TensorOptions(at::kDouble));
  return at::sin(n * 0.7 + salt).reshape(shape);
}

CompileOptions plain(std::vector<Mode> modes = {train, evaluate}) {
  CompileOptions options;
  options.modes = std::move(modes);
  options.tune = Tune::off;
  options.threads = 1;
  options.seed = 3;
  return options;
}

void feed_and_run(Executable& step, const Net& net, std::int64_t rows, int salt, bool training) {
  const std::vector<Feed> feeds = {{net.x, numbers({rows, 6}, salt)},
                                   {net.t, numbers({rows, 3}, salt + 1)},
                                   {net.scale, at::full({}, 1.5, at::kDouble)}};
  training ? step.run(feeds) : step.evaluate(feeds);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST_CASE("two shapes in turn: replay is stepwise to the bit and eager within 1e-12") {
  const Net large(8), small(3);
  CompileOptions poisoned = plain();
  poisoned.poison = true;
  Executable replay = compile({&large.g, &small.g}, cpu_replay(), plain());
  Executable others[] = {compile({&large.g, &small.g}, stepwise(), plain()),
                         compile({&large.g, &small.g}, cpu_replay(), poisoned),
                         compile({&large.g, &small.g}, eager(), plain())};
  const auto same = [&](const at::Tensor& ours, const at::Tensor& theirs, const Executable& other) {
    return &other == &others[2] ? distance(ours, theirs) <= 1e-12 : ours.equal(theirs);
  };
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    const std::int64_t rows = i % 3 == 1 ? 3 : 8;
    feed_and_run(replay, large, rows, i, true);
    for (Executable& other : others) {
      feed_and_run(other, large, rows, i, true);
      CHECK(same(replay.read(large.y), other.read(large.y), other));
      CHECK(same(replay.read(large.g.loss()), other.read(large.g.loss()), other));
      for (const std::string& path : replay.storages()) {
        CAPTURE(path);
        CHECK(same(replay.get(path), other.get(path), other));
      }
    }
  }
  for (const std::int64_t rows : {3, 8}) {
    feed_and_run(replay, small, rows, 20, false);
    for (Executable& other : others) {
      feed_and_run(other, small, rows, 20, false);
      CHECK(same(replay.read("y"), other.read("y"), other));
    }
  }
}

TEST_CASE("both shapes train what single executables train that hand their storage on") {
  const TemporaryFolder folder;
  const std::string file = folder.file("net.safetensors");
  const Net large(8), small(3);
  Executable both = compile({&large.g, &small.g}, cpu_replay(), plain());
  Executable eight = compile(large.g, cpu_replay(), plain());
  Executable three = compile(small.g, cpu_replay(), plain());
  for (int i = 0; i < 4; ++i) {
    const std::int64_t rows = i % 2 == 0 ? 8 : 3;
    Executable& single = rows == 8 ? eight : three;
    Executable& next = rows == 8 ? three : eight;
    feed_and_run(both, large, rows, i, true);
    feed_and_run(single, rows == 8 ? large : small, rows, i, true);
    single.save(file);
    next.load(file);
  }
  CHECK(both.storages() == eight.storages());
  for (const std::string& path : both.storages()) {
    CAPTURE(path);
    CHECK(both.get(path).equal(eight.get(path)));
  }

  both.save(file);
  Executable resumed = compile(small.g, cpu_replay(), plain());
  // The kernel choices of one plan are not those of two.
  CHECK(resumed.load(file) ==
        std::vector<std::string>{
            fmt::format("{}: was saved under kernel choices {:016x}, not {:016x}: bits may differ",
                        file, both.report().choices_hash, resumed.report().choices_hash)});
  feed_and_run(both, large, 3, 9, true);
  feed_and_run(resumed, small, 3, 9, true);
  CHECK(both.replays() == 5);
  CHECK(resumed.updates() == 5);
  for (const std::string& path : both.storages()) {
    CAPTURE(path);
    CHECK(both.get(path).equal(resumed.get(path)));
  }
}

TEST_CASE("initial values do not depend on which graph comes first, nor on a second one") {
  const Net large(8), small(3);
  const Executable a = compile({&large.g, &small.g}, cpu_replay(), plain());
  const Executable b = compile({&small.g, &large.g}, cpu_replay(), plain());
  const Executable alone = compile(small.g, cpu_replay(), plain());
  REQUIRE(a.storages() == alone.storages());
  REQUIRE(b.storages() == alone.storages());
  for (const std::string& path : alone.storages()) {
    CAPTURE(path);
    CHECK(a.get(path).equal(alone.get(path)));
    CHECK(b.get(path).equal(alone.get(path)));
  }
}

TEST_CASE("one arena, as large as the largest plan's") {
  const Net large(64), small(3);
  const Executable both = compile({&small.g, &large.g}, cpu_replay(), plain());
  const Executable alone = compile(large.g, cpu_replay(), plain());
  CHECK(both.report().arena_bytes == alone.report().arena_bytes);
  CHECK(both.report().storage_bytes == alone.report().storage_bytes);
  CHECK(both.report().parameter_count == alone.report().parameter_count);
  CHECK(both.report().plan(train, 0).arena_bytes < both.report().plan(train, 1).arena_bytes);

  CompileOptions options = plain({train});
  options.recompute_to_fit = false;
  options.memory_budget = both.report().plan(train, 0).arena_bytes;
  const std::size_t need = both.report().plan(train, 1).arena_bytes;
  CHECK_THROWS_WITH_AS(
      compile({&small.g, &large.g}, cpu_replay(), options),
      fmt::format(
          "graph \"net\": the plan to train at batch shape x [64, 6], t [64, 3] needs an "
          "arena of {} bytes, but the budget is {}; the smallest that is feasible is {}, "
          "or less with CompileOptions::recompute_to_fit; largest at its fullest moment are\n  {}",
          need, *options.memory_budget, need,
          fmt::join(both.report().plan(train, 1).largest(), "\n  "))
          .c_str(),
      RunError);
}

TEST_CASE("the report has a plan for each mode and shape, the first graph's first") {
  const Net large(8), small(3);
  const Executable step = compile({&large.g, &small.g}, cpu_replay(), plain());
  std::vector<std::string> names;
  for (const PlanReport& plan : step.report().plans) names.push_back(name_of(plan));
  CHECK(names == std::vector<std::string>{"train, batch shape x [8, 6], t [8, 3]",
                                          "evaluate, batch shape x [8, 6], t [8, 3]",
                                          "train, batch shape x [3, 6], t [3, 3]",
                                          "evaluate, batch shape x [3, 6], t [3, 3]"});
  CHECK(to_string(step.report()).find("\n  train, batch shape x [3, 6], t [3, 3]: ") !=
        std::string::npos);
  CHECK_THROWS_WITH_AS(step.report().plan(train, 2),
                       "graph \"net\" was compiled for 2 batch shapes, so there is none at 2",
                       RunError);
  const Executable alone = compile(large.g, cpu_replay(), plain());
  CHECK(name_of(alone.report().plan(train)) == "train");
}

/// y = w x + shift, without random parts.
struct Scaled {
  explicit Scaled(std::int64_t n, Element element = f32) {
    x = g.input("x", element, {n, 2});
    shift = g.input("shift", element, {});
    y = x * g.parameter("w", {element, {}}, ones()) + shift;
    g.output("y", y);
    total = sum(y);
    g.output("sum", total);
  }
  Graph g{"scaled"};
  Value x, shift, y, total;
};

at::Tensor ones_of(std::int64_t rows) { return at::ones({rows, 2}); }

const Target kTargets[] = {cpu_replay(), stepwise(), eager()};

TEST_CASE("values of any graph feed and read; what is read has the shape of the graph that ran") {
  for (const Target& target : kTargets) {
    const Scaled four(4), two(2);
    Executable step = compile({&four.g, &two.g}, target, plain());
    CHECK_THROWS_WITH_AS(step.read(two.y),
                         "graph \"scaled\": no step has produced \"y\" yet; call run() first",
                         RunError);
    step.run({{four.x, ones_of(4)}, {two.shift, at::full({}, 1.0)}});
    CHECK(step.read(two.y).equal(at::full({4, 2}, 2.0)));
    step.run({{four.x, ones_of(2)}});  // the shift is one of all shapes and stays
    CHECK(step.read(four.y).equal(at::full({2, 2}, 2.0)));
    CHECK(step.read_scalar(two.total) == 8);
    CHECK(step.read_scalar(four.total, 1) == 8);
    step.evaluate({{"x", 3.0 * ones_of(4)}});
    CHECK(step.read("y").equal(at::full({4, 2}, 4.0)));
    CHECK(step.steps() == 3);
    CHECK(step.replays() == 2);
    const Scaled other(4);
    CHECK_THROWS_WITH_AS(step.read(other.y),
                         "graph \"scaled\": the value that is read is of another graph, "
                         "\"scaled\"; kept are \"y\", \"sum\"",
                         RunError);
  }
}

TEST_CASE("without feeds the shape picked last runs, and holds what it was fed") {
  for (const Target& target : kTargets) {
    const Scaled four(4), two(2);
    Executable step = compile({&four.g, &two.g}, target, plain());
    step.run({{"shift", at::zeros({})}, {"x", ones_of(4)}});
    step.run({{"x", 5.0 * ones_of(2)}});
    step.run({{"shift", at::full({}, 1.0)}}, {.graph = two.x});
    CHECK(step.read("y").equal(at::full({2, 2}, 6.0)));
    step.run();
    CHECK(step.read("y").equal(at::full({2, 2}, 6.0)));
    step.input(four.x);  // picks
    step.run();
    CHECK(step.read("y").equal(at::full({4, 2}, 2.0)));
    step.input("x").fill_(7);  // of the graph picked last
    step.run();
    CHECK(step.read("y").equal(at::full({4, 2}, 8.0)));
    step.input(two.x).add_(1);
    step.evaluate();
    CHECK(step.read("y").equal(at::full({2, 2}, 7.0)));
    step.run({{"x", ones_of(4)}});
    CHECK(step.input(four.x).equal(ones_of(4)));  // shows what was fed last
  }
}

TEST_CASE("another shape is refused with the shapes there are and the nearest choice") {
  for (const Target& target : kTargets) {
    const Net a(8), b(3);
    Executable step = compile({&a.g, &b.g}, target, plain());
    feed_and_run(step, a, 3, 0, true);
    const at::Tensor before = step.get("linear/weight").clone();
    const auto refused = [&](std::int64_t x_rows, std::int64_t t_rows, const char* message) {
      CHECK_THROWS_WITH_AS(
          step.run({{a.x, numbers({x_rows, 6}, 0)}, {a.t, numbers({t_rows, 3}, 0)}}), message,
          RunError);
    };
    refused(2, 2,
            "graph \"net\": x [2, 6], t [2, 3] is of no declared batch shape, which are\n"
            "  x [8, 6], t [8, 3]\n"
            "  x [3, 6], t [3, 3]\n"
            "nearest: x [3, 6], t [3, 3]; pad to it or declare it");
    refused(4, 4,
            "graph \"net\": x [4, 6], t [4, 3] is of no declared batch shape, which are\n"
            "  x [8, 6], t [8, 3]\n"
            "  x [3, 6], t [3, 3]\n"
            "nearest: x [8, 6], t [8, 3]; pad to it or declare it");
    refused(20, 20,
            "graph \"net\": x [20, 6], t [20, 3] is of no declared batch shape, which are\n"
            "  x [8, 6], t [8, 3]\n"
            "  x [3, 6], t [3, 3]\n"
            "nearest: x [8, 6], t [8, 3]; feed it in parts or declare it");
    refused(3, 8,
            "graph \"net\": x [3, 6], t [8, 3] is of no declared batch shape, which are\n"
            "  x [8, 6], t [8, 3]\n"
            "  x [3, 6], t [3, 3]\n"
            "nearest: x [8, 6], t [8, 3]; pad to it or declare it");
    CHECK_THROWS_WITH_AS(step.run({{a.x, numbers({9, 5}, 0)}}),
                         "graph \"net\": x [9, 5] is of no declared batch shape, which are\n"
                         "  x [8, 6], t [8, 3]\n"
                         "  x [3, 6], t [3, 3]\n"
                         "nearest: x [8, 6], t [8, 3]; declare it",
                         RunError);
    CHECK_THROWS_WITH_AS(step.run({{a.x, numbers({3}, 0)}}),
                         "graph \"net\": x [3] is of no declared batch shape, which are\n"
                         "  x [8, 6], t [8, 3]\n"
                         "  x [3, 6], t [3, 3]\n"
                         "declare it",
                         RunError);
    CHECK_THROWS_WITH_AS(step.run({{a.x, numbers({3, 6}, 0).to(at::kFloat)}}),
                         "graph \"net\": feed of \"x\": requires f64[8, 6] or f64[3, 6], but the "
                         "tensor is f32[3, 6]; give tensor.to(at::kDouble)",
                         RunError);
    CHECK_THROWS_WITH_AS(step.run({{a.x, at::Tensor()}}),
                         "graph \"net\": feed of \"x\": requires f64[8, 6] or f64[3, 6], but the "
                         "tensor is undefined",
                         RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{a.scale, numbers({1}, 0)}, {a.x, numbers({2, 6}, 0)}}),
        "graph \"net\": feed of \"scale\": requires f64[], but the tensor is f64[1]", RunError);
    CHECK_THROWS_WITH_AS(step.run({{a.x, numbers({8, 6}, 0)}}),
                         "graph \"net\": input \"t\" f64[8, 3] was never fed", RunError);
    CHECK(step.get("linear/weight").equal(before));
    CHECK(step.steps() == 1);
    step.run();  // the shape that ran is still picked, and what was refused left nothing
    CHECK(step.read("y").sizes() == at::IntArrayRef({3, 3}));
    CHECK_THROWS_WITH_AS(step.run({{a.t, numbers({8, 3}, 0)}}),
                         "graph \"net\": input \"x\" f64[8, 6] was never fed", RunError);
  }
}

TEST_CASE("a parameter that the loss reaches in one shape only") {
  for (const Target& target : kTargets) {
    const auto declare = [](std::int64_t n) {
      Graph g("reached");
      const Value x = g.input("x", f64, {n});
      const Value w = g.parameter("w", {f64, {}}, ones());
      const Value v = g.parameter("v", {f64, {}}, ones());
      g.output("aside", v * 2.0);
      g.minimize(n == 1 ? sum(x * w) : sum(x * w * v), Adam{.lr = 0.1});
      return g;
    };
    const Graph one = declare(1), two = declare(2);
    Executable step = compile({&one, &two}, target, plain({train}));
    step.run({{"x", at::ones({1}, at::kDouble)}});
    CHECK(step.get("w").item<double>() == doctest::Approx(0.9));
    CHECK(step.get("v").item<double>() == 1);
    step.run({{"x", at::ones({2}, at::kDouble)}});
    CHECK(step.get("v").item<double>() < 1);
    CHECK(step.report().unreached == std::vector<std::string>{"v"});
  }
}

}  // namespace
}  // namespace metronome::shapes_test
