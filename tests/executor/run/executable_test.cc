// One executable: what it refuses, in whole messages, and that it stays usable.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::executable_test {
namespace {

using tests::untuned;

/// y = w x, loss = mean((y - t)^2), w = 1 at the beginning.
struct Scaled {
  Graph g{"scaled"};
  Value x = g.input("x", f32, {2});
  Value t = g.input("t", f32, {2});
  Value w = g.parameter("w", Type{f32, {}}, ones());
  Value y = x * w;
  Value loss = mse_loss(y, t);
  Scaled() {
    g.minimize(loss, Sgd{.lr = 0.1});
    g.output("y", y);
  }
};

at::Tensor filled(double number) { return at::full({2}, number); }

const Target kTargets[] = {cpu_replay(), stepwise(), eager()};

TEST_CASE("a step computes the loss and updates the parameter, on every target") {
  for (const Target& target : kTargets) {
    Scaled s;
    Executable step = compile(s.g, target, untuned());
    step.run({{s.x, filled(1)}, {s.t, filled(3)}});
    CHECK(step.read_scalar(s.g.loss()) == doctest::Approx(4));
    // d loss / d w = mean(2 (y - t) x) = -4
    CHECK(step.get("w").item<float>() == doctest::Approx(1.4));
    CHECK(step.replays() == 1);
    CHECK(step.updates() == 1);
    CHECK(step.read("y").equal(filled(1)));
  }
}

TEST_CASE("feeding by name, through the input's memory, or not again") {
  for (const Target& target : kTargets) {
    Scaled s;
    Executable step = compile(s.g, target, untuned());
    step.run({{"x", filled(1)}, {"t", filled(1)}});
    CHECK(step.read_scalar(s.loss) == 0);
    step.input(s.t).fill_(2);
    step.run();
    CHECK(step.read_scalar(s.loss) == 1);
  }
}

TEST_CASE("a wrong feed is one error; nothing of it is copied, and the next step runs") {
  for (const Target& target : kTargets) {
    Scaled s;
    Executable step = compile(s.g, target, untuned());
    step.run({{s.x, filled(1)}, {s.t, filled(1)}});
    CHECK_THROWS_WITH_AS(
        step.run({{s.x, filled(9)}, {s.t, at::zeros({3})}}),
        "graph \"scaled\": feed of \"t\": requires f32[2], but the tensor is f32[3]; for batches "
        "of several sizes declare the graph once for each size and compile them together: "
        "compile({&a, &b})",
        RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{s.x, at::zeros({2, 1})}}),
        "graph \"scaled\": feed of \"x\": requires f32[2], but the tensor is f32[2, 1]", RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{s.x, at::zeros({2}, at::kDouble)}}),
        "graph \"scaled\": feed of \"x\": requires f32[2], but the tensor is f64[2]; give "
        "tensor.to(at::kFloat)",
        RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{s.x, at::zeros({2}, at::kDouble)},
                  {s.t, at::zeros({3}, at::kDouble)},
                  {"z", filled(1)}}),
        "graph \"scaled\" has no input \"z\"; its inputs are \"x\", \"t\"\n"
        "graph \"scaled\": feed of \"x\": requires f32[2], but the tensor is f64[2]; give "
        "tensor.to(at::kFloat)\n"
        "graph \"scaled\": feed of \"t\": requires f32[2], but the tensor is f64[3]",
        RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{s.x, at::zeros({2}, at::kByte)}}),
        "graph \"scaled\": feed of \"x\": requires f32[2], but the tensor is Byte[2]; give "
        "tensor.to(at::kFloat)",
        RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{s.x, at::zeros({2}, at::TensorOptions(at::kMeta))}}),
        "graph \"scaled\": feed of \"x\": requires f32[2], but the tensor is on meta, which holds "
        "no numbers",
        RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{s.x, at::Tensor()}}),
        "graph \"scaled\": feed of \"x\": requires f32[2], but the tensor is undefined", RunError);
    CHECK_THROWS_WITH_AS(step.run({{"z", filled(1)}}),
                         "graph \"scaled\" has no input \"z\"; its inputs are \"x\", \"t\"",
                         RunError);
    CHECK_THROWS_WITH_AS(
        step.run({{s.y, filled(1)}}),
        "graph \"scaled\": the value that is fed is not one of its inputs, which are \"x\", \"t\"",
        RunError);
    step.run();
    CHECK(step.read_scalar(s.loss) == 0);
    CHECK(step.replays() == 2);
  }
}

TEST_CASE("an input that was never fed") {
  Scaled s;
  Executable step = compile(s.g, cpu_replay(), untuned());
  CHECK_THROWS_WITH_AS(step.run({{s.x, filled(1)}}),
                       "graph \"scaled\": input \"t\" f32[2] was never fed", RunError);
}

TEST_CASE("reading what no step has produced, or what is not kept") {
  for (const Target& target : kTargets) {
    Scaled s;
    Executable step = compile(s.g, target, untuned());
    CHECK_THROWS_WITH_AS(step.read_scalar(s.loss),
                         "graph \"scaled\": no step has produced \"loss\" yet; call run() first",
                         RunError);
    CHECK_THROWS_WITH_AS(step.read("h"),
                         "graph \"scaled\" keeps no value \"h\"; it keeps \"loss\", \"y\"",
                         RunError);
    CHECK_THROWS_WITH_AS(
        step.read(s.x),
        "graph \"scaled\": \"x\" is not kept after a step; declare it with Graph::output or "
        "Value::named. Kept are \"loss\", \"y\"",
        RunError);
    step.run({{s.x, filled(1)}, {s.t, filled(1)}});
    CHECK_THROWS_WITH_AS(
        step.read_scalar(s.y),
        "graph \"scaled\": read_scalar requires one element, but \"y\" is f32[2]; use read",
        RunError);
    CHECK_THROWS_WITH_AS(step.read(Value()),
                         "graph \"scaled\": the value that is read is absent; kept are \"loss\", "
                         "\"y\"",
                         RunError);
    const Value later = s.y * 2.0;
    CHECK_THROWS_WITH_AS(step.read(later),
                         "graph \"scaled\": the value that is read was declared after the graph "
                         "was compiled; kept are \"loss\", \"y\"",
                         RunError);
    Scaled other;
    CHECK_THROWS_WITH_AS(step.read(other.loss),
                         "graph \"scaled\": the value that is read is of another graph, "
                         "\"scaled\"; kept are \"loss\", \"y\"",
                         RunError);
  }
}

TEST_CASE("the loss of a graph that minimises none") {
  for (const Target& target : kTargets) {
    Graph g("forgotten");
    const Value x = g.input("x", f32, {2});
    g.output("y", x * g.parameter("w", Type{f32, {}}, ones()));
    Executable step = compile(g, target, untuned());
    step.run({{x, filled(1)}});
    CHECK_THROWS_WITH_AS(step.read_scalar(g.loss()),
                         "graph \"forgotten\": the value that is read is absent (without "
                         "Graph::minimize there is no loss); kept are \"y\"",
                         RunError);
    CHECK_THROWS_WITH_AS(step.read("loss"),
                         "graph \"forgotten\" keeps no value \"loss\" (without Graph::minimize "
                         "there is no loss); it keeps \"y\"",
                         RunError);
  }
}

TEST_CASE("storages by path") {
  Scaled s;
  Executable step = compile(s.g, cpu_replay(), untuned());
  step.set("w", at::full({}, 5.0));
  CHECK(step.get("w").item<float>() == 5);
  CHECK_THROWS_WITH_AS(step.set("w", at::zeros({2})),
                       "graph \"scaled\": set of \"w\": requires f32[], but the tensor is f32[2]",
                       RunError);
  CHECK_THROWS_WITH_AS(step.get("v"),
                       "graph \"scaled\" has no storage \"v\"; it has \"seed\", \"replay\", "
                       "\"update\", \"w\"",
                       RunError);
}

TEST_CASE("a mode that was not compiled") {
  Scaled s;
  Executable step = compile(s.g, cpu_replay(), untuned());
  CHECK_THROWS_WITH_AS(step.evaluate({{s.x, filled(1)}}),
                       "graph \"scaled\" was not compiled to evaluate; add mt::evaluate to "
                       "CompileOptions::modes",
                       RunError);
}

TEST_CASE("evaluation updates nothing and advances no counter") {
  for (const Target& target : kTargets) {
    Scaled s;
    CompileOptions options = untuned();
    options.modes = {train, evaluate};
    Executable step = compile(s.g, target, options);
    step.evaluate({{s.x, filled(2)}, {s.t, filled(0)}});
    CHECK(step.read_scalar(s.loss) == 4);
    CHECK(step.get("w").item<float>() == 1);
    CHECK(step.replays() == 0);
    step.run();
    step.evaluate();
    CHECK(step.read("y").equal(step.read("y")));
    CHECK(step.replays() == 1);
  }
}

TEST_CASE("options that cannot be met") {
  Scaled s;
  CompileOptions options = untuned();
  options.modes = {};
  CHECK_THROWS_WITH_AS(compile(s.g, cpu_replay(), options),
                       "graph \"scaled\": CompileOptions::modes is empty; give mt::train, "
                       "mt::evaluate or both",
                       RunError);
  options = untuned();
  options.threads = -1;
  CHECK_THROWS_WITH_AS(
      compile(s.g, cpu_replay(), options),
      "graph \"scaled\": CompileOptions::threads is -1; give 1 or more, or 0 for as "
      "many as libtorch uses",
      RunError);
  options = untuned();
  options.memory_budget = 1;
  const Report whole = compile(s.g, cpu_replay(), untuned()).report();
  const std::size_t need = whole.arena_bytes;
  CHECK_THROWS_WITH_AS(
      compile(s.g, cpu_replay(), options),
      fmt::format(
          "graph \"scaled\": the plan to train needs an arena of {} bytes, but the budget is "
          "1; the smallest found, with values computed again, is {}; largest at its fullest moment "
          "are\n  {}",
          need, need, fmt::join(whole.plan(train).largest(), "\n  "))
          .c_str(),
      RunError);
}

TEST_CASE("an invalid graph does not compile") {
  Graph g("wrong");
  const Value x = g.input("x", f32, {2}, Line{"wrong.cc", 1});
  const Value y = g.input("y", f32, {3}, Line{"wrong.cc", 2});
  g.output("sum", Operand(x, Line{"wrong.cc", 3}) + Operand(y, Line{"wrong.cc", 3}));
  CHECK_THROWS_WITH_AS(compile(g, cpu_replay(), untuned()),
                       "wrong.cc:3: add cannot join the graph as \"add\"\n"
                       "  operand 0  f32[2]  \"x\"  wrong.cc:1\n"
                       "  operand 1  f32[3]  \"y\"  wrong.cc:2\n"
                       "  requires   equal last dimensions, or one of them 1, but 2 and 3",
                       GraphError);
}

TEST_CASE("states are fed back, and states that swap read both before either changes") {
  for (const Target& target : kTargets) {
    Graph g("swap");
    const Value a = g.state("a", Type{f32, {}}, constant(1));
    const Value b = g.state("b", Type{f32, {}}, constant(2));
    g.feed(a, b);
    g.feed(b, a);
    g.output("old a", a);
    Executable step = compile(g, target, untuned());
    step.run();
    CHECK(step.read("old a").item<float>() == 1);
    CHECK(step.get("a").item<float>() == 2);
    CHECK(step.get("b").item<float>() == 1);
    step.run();
    CHECK(step.read("old a").item<float>() == 2);
  }
}

TEST_CASE("a declared gradient is read after a step") {
  for (const Target& target : kTargets) {
    Scaled s;
    const Value gradient = s.g.gradient(s.y);
    Executable step = compile(s.g, target, untuned());
    step.run({{s.x, filled(1)}, {s.t, filled(3)}});
    CHECK(step.read(gradient).equal(filled(-2)));  // 2 (y - t) / 2
  }
}

TEST_CASE("a declared gradient of an input, in every step anew") {
  for (const Target& target : kTargets) {
    Scaled s;
    const Value gradient = s.g.gradient(s.x);
    Executable step = compile(s.g, target, untuned());
    step.run({{s.x, filled(1)}, {s.t, filled(3)}});
    CHECK(step.read(gradient).equal(filled(-2)));  // 2 (y - t) w / 2, of w = 1
    step.set("w", at::ones({}));
    step.run({{s.x, filled(2)}, {s.t, filled(3)}});
    CHECK(step.read(gradient).equal(filled(-1)));
  }
}

TEST_CASE("a parameter that the loss does not reach keeps its value and is reported") {
  for (const Target& target : kTargets) {
    Scaled s;
    const Value unused = s.g.parameter("unused", Type{f32, {}}, ones());
    s.g.output("aside", unused * 2.0);
    Executable step = compile(s.g, target, untuned());
    step.run({{s.x, filled(1)}, {s.t, filled(3)}});
    CHECK(step.get("unused").item<float>() == 1);
    CHECK(step.report().unreached == std::vector<std::string>{"unused"});
  }
}

TEST_CASE("two executables of one graph share nothing") {
  Scaled s;
  Executable a = compile(s.g, cpu_replay(), untuned());
  Executable b = compile(s.g, cpu_replay(), untuned());
  a.run({{s.x, filled(1)}, {s.t, filled(3)}});
  CHECK(b.get("w").item<float>() == 1);
  CHECK_THROWS_AS(b.read_scalar(s.loss), RunError);
}

}  // namespace
}  // namespace metronome::executable_test
