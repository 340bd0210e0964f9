// Several graphs of one model, each for modes of its own, over one set of parameters.
//
//   train     x [8, 6], t [8, 3], state h [8, 5] --.
//   evaluate  x [50, 6],          state h[50, 5] --+-- parameters, moments, counters
//   advance   x [1, 6],           state h[1, 5]  --'
#include <algorithm>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/options.h"
#include "tests/executor/targets.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::graph_modes_test {
namespace {

using tests::plain_options;
using tests::targets;

Line at_line(int number) { return {"net.cc", number}; }

/// A layer, a norm with running statistics, a state; what trains has a loss, too.
struct Net {
  explicit Net(std::int64_t rows, bool trains = false) {
    x = g.input("x", f64, {rows, 6});
    const Value h = g.state("h", {f64, {rows, 5}}, constant(0.5));
    const Value next = tanh(x.through(linear(5)).through(batch_norm()) + h * 0.5);
    g.feed(h, next);
    y = next.through(dropout(0.1)).through(linear(3));
    g.output("y", y);
    if (!trains) return;
    t = g.input("t", f64, {rows, 3});
    g.minimize(mse_loss(y, t), Adam{.lr = 1e-2});
  }
  Graph g{"net"};
  Value x, y, t;
};

at::Tensor numbers(at::IntArrayRef shape, int salt) {
  const at::Tensor n = at::arange(c10::multiply_integers(shape), at::TensorOptions(at::kDouble));
  return at::sin(n * 0.7 + salt).reshape(shape);
}

void train_steps(Executable& step, int from, int to) {
  for (int i = from; i < to; ++i) {
    step.run({{"x", numbers({8, 6}, i)}, {"t", numbers({8, 3}, i + 1)}});
  }
}

/// One graph alone, with what another executable has.
Executable alone(const Net& net, Mode mode, const Target& target, const Snapshot& from) {
  CompileOptions options = plain_options();
  options.modes = {mode};
  Executable step = compile(net.g, target, options);
  step.load(from);
  return step;
}

const EvaluateOptions kAdvance = {.states = States::advance};

TEST_CASE("each graph runs in its modes as it would alone, on the others' parameters") {
  const Net training(8, true), large(50), one(1);
  for (const Target& target : targets()) {
    Executable step = compile({{&training.g, {train}}, {&large.g, {evaluate}}, {&one.g, {advance}}},
                              target, plain_options());
    Executable trained = compile(training.g, target, plain_options());
    for (int i = 0; i < 3; ++i) {
      CAPTURE(i);
      train_steps(step, i, i + 1);
      train_steps(trained, i, i + 1);
      const Snapshot now = trained.snapshot();
      Executable evaluated = alone(large, evaluate, target, now);
      Executable sampled = alone(one, advance, target, now);
      evaluated.evaluate({{large.x, numbers({50, 6}, i)}});
      step.evaluate({{large.x, numbers({50, 6}, i)}});
      CHECK(step.read("y").equal(evaluated.read("y")));
      step.reset("h[1, 5]");
      for (int k = 0; k < 3; ++k) {
        sampled.evaluate({{one.x, numbers({1, 6}, k)}}, kAdvance);
        step.evaluate({{one.x, numbers({1, 6}, k)}}, kAdvance);
        CHECK(step.read(one.y).equal(sampled.read("y")));
      }
    }
    for (const std::string& path : trained.storages()) {
      CAPTURE(path);
      CHECK(step.get(path).equal(trained.get(path)));
    }
    CHECK(step.get("h[50, 5]").equal(at::full({50, 5}, 0.5, at::kDouble)));
    CHECK_FALSE(step.get("h[1, 5]").equal(at::full({1, 5}, 0.5, at::kDouble)));
    CHECK(step.replays() == 3);
  }
}

TEST_CASE("what only evaluates gets no plan to train") {
  const Net training(8, true), large(50);
  CompileOptions both = plain_options();
  both.modes = {train, evaluate};
  const Executable step = compile({{&training.g, {}}, {&large.g, {evaluate}}}, cpu_replay(), both);
  std::vector<std::string> names;
  for (const PlanReport& plan : step.report().plans) names.push_back(name_of(plan));
  CHECK(names == std::vector<std::string>{"train, batch shape x [8, 6], t [8, 3]",
                                          "evaluate, batch shape x [8, 6], t [8, 3]",
                                          "evaluate, batch shape x [50, 6]"});
  CompileOptions evaluates = plain_options();
  evaluates.modes = {evaluate};
  const std::size_t trained = compile(training.g, cpu_replay(), both).report().arena_bytes;
  const std::size_t evaluated = step.report().plans.back().arena_bytes;
  CHECK(step.report().arena_bytes == std::max(trained, evaluated));
  // By itself it packs its weights once, in memory beside the arena.
  CHECK(compile(large.g, cpu_replay(), evaluates).report().arena_bytes <= evaluated);
}

TEST_CASE("feeds pick among the graphs of the call's mode, and each mode keeps its own") {
  for (const Target& target : targets()) {
    Graph a("a"), b("b"), c("c");
    const auto declare = [](Graph& g, std::int64_t rows) {
      const Value x = g.input("x", f64, {rows});
      g.output("sum", sum(x) * g.parameter("w", {f64, {}}, ones()));
    };
    declare(a, 8), declare(b, 4), declare(c, 50);
    Executable step =
        compile({{&a, {train}}, {&b, {train}}, {&c, {evaluate}}}, target, plain_options());
    step.run({{"x", at::ones({4}, at::kDouble)}});
    step.evaluate({{"x", at::ones({50}, at::kDouble)}});
    CHECK(step.read("sum").item<double>() == 50);
    step.run();  // the graph that trained last
    CHECK(step.read("sum").item<double>() == 4);
    step.evaluate();
    CHECK(step.read("sum").item<double>() == 50);
    CHECK_THROWS_WITH_AS(step.evaluate({{"x", at::ones({4}, at::kDouble)}}),
                         "graph \"a\": feed of \"x\": requires f64[50], but the tensor is f64[4]",
                         RunError);
    CHECK_THROWS_WITH_AS(step.run({{"x", at::ones({50}, at::kDouble)}}),
                         "graph \"a\": x [50] is of no declared batch shape, which are\n"
                         "  x [8]\n"
                         "  x [4]\n"
                         "nearest: x [8]; feed it in parts or declare it",
                         RunError);
  }
}

TEST_CASE("an input that no graph of the mode has is refused") {
  const Net training(8, true), large(50);
  Executable step =
      compile({{&training.g, {train}}, {&large.g, {evaluate}}}, cpu_replay(), plain_options());
  CHECK_THROWS_WITH_AS(
      step.evaluate({{"x", numbers({50, 6}, 0)}, {"t", numbers({50, 3}, 0)}}),
      "graph \"net\": no graph that is compiled to evaluate has an input \"t\"; their inputs are "
      "\"x\"",
      RunError);
  CHECK_THROWS_WITH_AS(step.evaluate({{large.x, numbers({50, 6}, 0)}}, kAdvance),
                       "graph \"net\" was not compiled to advance; add mt::advance to "
                       "CompileOptions::modes",
                       RunError);
  CHECK_THROWS_WITH_AS(step.read(large.y),
                       "graph \"net\": no step has produced \"y\" yet; call run() first", RunError);
  step.input("t").fill_(1);  // of the one graph that has it
  step.input(large.x).fill_(2);
  step.evaluate();
  CHECK(step.read("y").sizes() == at::IntArrayRef({50, 3}));
  CHECK_THROWS_WITH_AS(step.run(), "graph \"net\": input \"x\" f64[8, 6] was never fed", RunError);
}

TEST_CASE("a checkpoint goes between executables with and without the other graphs") {
  const TemporaryFolder folder;
  const std::string file = folder.file("net.safetensors");
  const Net training(8, true), one(1);
  Executable both =
      compile({{&training.g, {train}}, {&one.g, {advance}}}, cpu_replay(), plain_options());
  Executable trained = compile(training.g, cpu_replay(), plain_options());
  train_steps(both, 0, 2);
  both.evaluate({{one.x, numbers({1, 6}, 1)}}, kAdvance);
  both.save(file);
  const auto first_line = [](const std::vector<std::string>& lines) {
    REQUIRE(!lines.empty());
    return lines[0];
  };
  CHECK(first_line(trained.load(file)) == file + ": ignored 1 state of a graph that is not here");
  CHECK(trained.get("h").equal(both.get("h")));
  train_steps(trained, 2, 3);
  train_steps(both, 2, 3);
  CHECK(trained.get("h").equal(both.get("h")));
  CHECK(first_line(both.load(trained.snapshot())) ==
        "the snapshot of graph \"net\": state \"h[1, 5]\" is f64[1, 5] here and missing in the "
        "snapshot: it starts from its initial value");
  CHECK(both.get("h[1, 5]").equal(at::full({1, 5}, 0.5, at::kDouble)));
}

TEST_CASE("a table of positions is read in part by a shorter length") {
  const auto declare = [](std::int64_t length, bool trains) {
    Graph g("text");
    const Value x = g.input("x", f64, {2, length, 4});
    const Value y = x.through(positions(8)).through(linear(3));
    g.output("y", y);
    if (trains) g.minimize(mean(square(y)), Sgd{.lr = 0.5});
    return g;
  };
  const Graph whole = declare(8, true), part = declare(3, false);
  Executable step =
      compile({{&whole, {train, evaluate}}, {&part, {evaluate}}}, cpu_replay(), plain_options());
  step.run({{"x", numbers({2, 8, 4}, 0)}});
  step.evaluate({{"x", numbers({2, 3, 4}, 1)}});
  const at::Tensor rows = (numbers({2, 3, 4}, 1) + step.get("positions/weight").slice(1, 0, 3));
  const at::Tensor expected = at::linear(rows, step.get("linear/weight"), step.get("linear/bias"));
  CHECK(at::allclose(step.read("y"), expected, 0, 1e-12));
}

TEST_CASE("evaluation outputs are looked for in each graph that evaluates") {
  Graph g("net"), h("net"), one("net");
  for (Graph* graph : {&g, &h}) {
    const Value x = graph->input("x", f64, {graph == &g ? 4 : 2});
    graph->output("a", x * 2.0);
    if (graph == &g) graph->output("b", x * graph->input("scale", f64, {}));
  }
  one.output("c", one.input("x", f64, {1}) * 2.0);
  CompileOptions options = plain_options();
  options.evaluate_outputs = {"a"};
  Executable step = compile({{&g, {train, evaluate}}, {&h, {evaluate}}}, cpu_replay(), options);
  step.evaluate({{"x", at::ones({4}, at::kDouble)}});  // no scale
  step.evaluate({{"x", at::ones({2}, at::kDouble)}});
  CHECK(step.read("a").sizes() == at::IntArrayRef({2}));
  CHECK_THROWS_WITH_AS(compile({{&g, {evaluate}}, {&one, {evaluate}}}, cpu_replay(), options),
                       "graph \"net\": CompileOptions::evaluate_outputs names no value of graph 1, "
                       "which keeps \"c\"",
                       RunError);
  options.evaluate_outputs = {"a", "d"};
  CHECK_THROWS_WITH_AS(compile({{&g, {evaluate}}, {&h, {evaluate}}}, cpu_replay(), options),
                       "graph \"net\": CompileOptions::evaluate_outputs names \"d\", but an "
                       "evaluation keeps \"a\", \"b\"",
                       RunError);
}

/// x w at line 10 or 20, as a test changes it.
struct Small {
  explicit Small(int first_line, Element element = f64) : line(first_line) {
    x = g.input("x", element, {first_line, 2}, at_line(line));
  }
  Value weight(const char* name, Type type = {f64, {2}}, Init init = ones()) {
    return g.parameter(name, std::move(type), std::move(init), at_line(line + 1));
  }
  Graph g{"net"};
  int line;
  Value x;
};

std::string refusal(const Graph& training, const Graph& evaluating, Mode mode = evaluate) {
  return tests::error_of<GraphError>([&] {
    compile({{&training, {train}}, {&evaluating, {mode}}}, cpu_replay(), plain_options());
  });
}

TEST_CASE("a parameter that nothing trains is a wrong path") {
  Small a(10), b(20);
  a.g.minimize(sum(a.x * a.weight("w")), Sgd{});
  b.g.output("y", b.x * b.weight("v"));
  CHECK(refusal(a.g, b.g) ==
        "net.cc:21: no graph that is compiled to train has the parameter \"v\" f64[2] of graph 1 "
        "of \"net\"\n"
        "  requires   parameters of equal paths in the graphs that train and those that evaluate\n"
        "  way out    declare the layer at the same place in both, or freeze the parameter");
  b.g.freeze("v");
  CHECK(refusal(a.g, b.g) == "nothing");
}

TEST_CASE("what graphs share must agree") {
  Small a(10);
  a.g.output("y", Operand(a.x, at_line(13)) * a.weight("w"));
  {
    Small b(20, f32);
    b.g.output("z", b.x);
    CHECK(refusal(a.g, b.g) ==
          "graphs 0 and 1 of \"net\" cannot be compiled together\n"
          "  graph 0    input \"x\" of f64  net.cc:10\n"
          "  graph 1    input \"x\" of f32  net.cc:20\n"
          "  requires   one element type for inputs of one name");
  }
  {
    Small b(20);
    b.g.output("z", b.x * b.weight("w", {f64, {2}}, zeros()));
    CHECK(refusal(a.g, b.g) ==
          "graphs 0 and 1 of \"net\" cannot be compiled together\n"
          "  graph 0    parameter \"w\" f64[2] = 1  net.cc:11\n"
          "  graph 1    parameter \"w\" f64[2] = 0  net.cc:21\n"
          "  requires   equal storages of one path, but for the shape of states");
  }
  {
    Graph other("other");
    other.output("z", other.input("x", f32, {20, 2}, at_line(20)));
    CHECK(refusal(a.g, other) ==
          "graph 0 \"net\" and graph 1 \"other\" cannot be compiled together\n"
          "  graph 0    input \"x\" of f64  net.cc:10\n"
          "  graph 1    input \"x\" of f32  net.cc:20\n"
          "  requires   one element type for inputs of one name");
  }
  {
    Small b(20);
    b.g.output("y", (b.x * b.weight("w")).cast(f32, at_line(23)));
    CHECK(refusal(a.g, b.g) ==
          "graphs 0 and 1 of \"net\" cannot be compiled together\n"
          "  graph 0    \"y\" of f64  net.cc:13\n"
          "  graph 1    \"y\" of f32  net.cc:23\n"
          "  requires   one element type for values to be read of one name");
  }
  {
    Small b(10);
    b.g.output("z", b.x * b.weight("w"));
    CHECK(refusal(a.g, b.g) == "nothing");  // of one shape, but of two modes
    CHECK(refusal(a.g, b.g, train) ==
          "graphs 0 and 1 of \"net\" cannot be compiled together\n"
          "  graph 0    \"y\" of f64    net.cc:13\n"
          "  graph 1    no value \"y\"\n"
          "  requires   values to be read of equal names and element types");
  }
}

}  // namespace
}  // namespace metronome::graph_modes_test
