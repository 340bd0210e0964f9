// Graphs that are compiled together and are not one model: whole messages.
#include <string>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::shapes_agreement_test {
namespace {

const std::string kStorages =
    "\n  requires   equal storages in graphs that both train"
    "\n  way out    a graph that only evaluates may lack some: {&graph, {mt::evaluate}}; what two "
    "models share goes from one to the other by get and set";

Line at_line(int number) { return {"net.cc", number}; }

/// x w, with whatever a test changes in the second graph.
struct Declared {
  Declared(std::int64_t batch, int first_line) : line(first_line) {
    x = g.input("x", f32, {batch, 4}, at_line(line));
  }
  Value weight(Type type = {f32, {4}}, Init init = ones()) {
    return g.parameter("w", std::move(type), std::move(init), at_line(line + 1));
  }
  void minimize(Value loss, Optimizer optimizer) { g.minimize(loss, optimizer, at_line(line + 2)); }

  Graph g{"net"};
  int line;
  Value x;
};

std::string refusal(const Declared& a, const Declared& b) {
  CompileOptions options;
  options.tune = Tune::off;
  return tests::error_of<GraphError>([&] { compile({&a.g, &b.g}, cpu_replay(), options); });
}

TEST_CASE("inputs") {
  Declared a(8, 10), b(3, 20), c(3, 30);
  a.g.output("y", a.x + a.g.input("shift", f32, {4}, at_line(11)), at_line(12));
  b.g.output("y", b.x + 1.0, at_line(22));
  c.g.output("y", c.x + c.g.input("shift", i32, {4}, at_line(31)).cast(f32), at_line(32));
  CHECK(refusal(a, b) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    input \"shift\" of f32  net.cc:11\n"
        "  graph 1    no input \"shift\"\n"
        "  requires   inputs of equal names and element types");
  CHECK(refusal(b, a) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    no input \"shift\"\n"
        "  graph 1    input \"shift\" of f32  net.cc:11\n"
        "  requires   inputs of equal names and element types");
  CHECK(refusal(a, c) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    input \"shift\" of f32  net.cc:11\n"
        "  graph 1    input \"shift\" of i32  net.cc:31\n"
        "  requires   inputs of equal names and element types");
}

TEST_CASE("values to be read") {
  Declared a(8, 10), b(3, 20), c(3, 30);
  a.g.output("y", Operand(a.x, at_line(13)) * 2.0);
  b.g.output("z", Operand(b.x, at_line(23)) * 2.0);
  c.g.output("y", c.x.cast(f64, at_line(33)));
  CHECK(refusal(a, b) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    \"y\" of f32    net.cc:13\n"
        "  graph 1    no value \"y\"\n"
        "  requires   values to be read of equal names and element types");
  CHECK(refusal(a, c) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    \"y\" of f32  net.cc:13\n"
        "  graph 1    \"y\" of f64  net.cc:33\n"
        "  requires   values to be read of equal names and element types");
}

TEST_CASE("storages: missing, of another type, kind, beginning, or frozen") {
  const auto declare = [](std::int64_t batch, int line, Type type, Init init) {
    Declared d(batch, line);
    d.g.output("y", sum(d.x) * sum(d.weight(std::move(type), std::move(init))));
    return d;
  };
  const Type four{f32, {4}};
  const Declared a = declare(8, 10, four, ones());
  const auto message = [](const std::string& ours, const std::string& theirs) {
    const std::size_t width = std::max(ours.size(), theirs.size());
    const auto padded = [&](const std::string& s) {
      return s + std::string(width - s.size(), ' ');
    };
    return "graphs 0 and 1 of \"net\" cannot be compiled together\n  graph 0    " + padded(ours) +
           "  net.cc:11\n  graph 1    " + padded(theirs) + "  net.cc:21" + kStorages;
  };
  const std::string ours = "parameter \"w\" f32[4] = 1";
  CHECK(refusal(a, declare(3, 20, four, ones())) == "nothing");
  CHECK(refusal(a, declare(3, 20, {f32, {3}}, ones())) ==
        message(ours, "parameter \"w\" f32[3] = 1"));
  CHECK(refusal(a, declare(3, 20, four, zeros())) == message(ours, "parameter \"w\" f32[4] = 0"));

  Declared frozen = declare(3, 20, four, ones());
  frozen.g.freeze("w");
  CHECK(refusal(a, frozen) == message(ours, "parameter \"w\" f32[4] = 1, frozen"));

  Declared scaled = declare(3, 20, four, ones());
  scaled.g.scale_learning_rate("w", 0.5);
  scaled.g.scale_weight_decay("w", 0);
  CHECK(refusal(a, scaled) == message(ours,
                                      "parameter \"w\" f32[4] = 1, at 0.5 times the learning rate, "
                                      "at 0 times the weight decay"));

  CHECK(refusal(declare(8, 10, four, values({1, 2, 3, 4})),
                declare(3, 20, four, values({1, 2, 5, 4}))) ==
        message("parameter \"w\" f32[4] = 4 values, number 2 of them 3",
                "parameter \"w\" f32[4] = 4 values, number 2 of them 5"));

  Declared none(3, 20);
  none.g.output("y", sum(none.x) * 2.0);
  CHECK(refusal(a, none) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    parameter \"w\" f32[4] = 1  net.cc:11\n"
        "  graph 1    no storage \"w\"" +
            kStorages);

  Declared state(3, 20);
  const Value w = state.g.state("w", four, ones(), at_line(21));
  state.g.feed(w, w * 2.0);
  state.g.output("y", sum(state.x) * sum(w));
  CHECK(refusal(a, state) == message(ours, "state \"w\" f32[4] = 1"));
}

TEST_CASE("the optimizer, or that there is one") {
  const auto declare = [](std::int64_t batch, int line, Optimizer optimizer) {
    Declared d(batch, line);
    d.minimize(sum(d.x * d.weight()), std::move(optimizer));
    return d;
  };
  const Declared a = declare(8, 10, Sgd{.lr = 0.1});
  CHECK(refusal(a, declare(3, 20, Sgd{.lr = 0.1})) == "nothing");
  CHECK(refusal(a, declare(3, 20, Sgd{.lr = 0.25})) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    sgd {lr=0.1 momentum=0 dampening=0 weight_decay=0}   net.cc:12\n"
        "  graph 1    sgd {lr=0.25 momentum=0 dampening=0 weight_decay=0}  net.cc:22\n"
        "  requires   one optimizer with equal settings");
  CHECK(refusal(declare(8, 10, Adam{}), declare(3, 20, AdamW{.weight_decay = 0})) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    adam {lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0}   net.cc:12\n"
        "  graph 1    adamw {lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0}  net.cc:22\n"
        "  requires   one optimizer with equal settings");

  // A value "loss" that is only read stands for the one that is missing.
  Declared unminimised(3, 20);
  unminimised.g.output("loss", sum(unminimised.x * unminimised.weight()));
  CHECK(refusal(a, unminimised) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    sgd {lr=0.1 momentum=0 dampening=0 weight_decay=0}  net.cc:12\n"
        "  graph 1    no loss to minimise\n"
        "  requires   one optimizer with equal settings");
}

TEST_CASE("the order of objectives") {
  const auto declare = [](std::int64_t batch, int line, std::vector<std::string> order) {
    Declared d(batch, line);
    const Value sums = sum(d.x, 0);
    for (const std::string name : {"actor", "critic"}) d.g.parameter(name, {f32, {4}}, ones(), {});
    for (const std::string& name : order) {
      const Value loss = sum(sums * d.g.parameter(name));
      d.g.minimize(loss, Sgd{.lr = 0.1}, {.name = name, .parameters = {name}}, at_line(line + 2));
    }
    return d;
  };
  const Declared a = declare(8, 10, {"actor", "critic"});
  CHECK(refusal(a, declare(3, 20, {"actor", "critic"})) == "nothing");
  const std::string sgd = "sgd {lr=0.1 momentum=0 dampening=0 weight_decay=0}";
  CHECK(refusal(a, declare(3, 20, {"critic", "actor"})) ==
        "graphs 0 and 1 of \"net\" cannot be compiled together\n"
        "  graph 0    actor: " +
            sgd + ", critic: " + sgd +
            "  net.cc:12\n"
            "  graph 1    critic: " +
            sgd + ", actor: " + sgd +
            "  net.cc:22\n"
            "  requires   calls of minimize in one order");
}

TEST_CASE("two graphs of one shape, and graphs without inputs") {
  Declared a(8, 10), b(3, 20), c(3, 30);
  for (Declared* d : {&a, &b, &c}) d->g.output("y", d->x * 2.0);
  CHECK_THROWS_WITH_AS(compile({&a.g, &b.g, &c.g}),
                       "graphs 1 and 2 of \"net\" cannot be compiled together\n"
                       "  both       x [3, 4]\n"
                       "  requires   inputs of other shapes in each graph, or another name",
                       GraphError);
  Graph g("empty"), h("empty");
  for (Graph* graph : {&g, &h}) {
    const Value s = graph->state("s", {f32, {}});
    graph->feed(s, s + 1.0);
  }
  CHECK_THROWS_WITH_AS(compile({&g, &h}),
                       "graphs 0 and 1 of \"empty\" cannot be compiled together\n"
                       "  both       no inputs\n"
                       "  requires   inputs of other shapes in each graph, or another name",
                       GraphError);
}

TEST_CASE("one graph given twice") {
  Declared a(8, 10), b(3, 20);
  for (Declared* d : {&a, &b}) d->g.output("y", d->x * 2.0);
  CHECK_THROWS_WITH_AS(compile({&a.g, &b.g, &a.g}),
                       "graphs 0 and 2 to compile are one and the same, \"net\"; give each graph "
                       "once, each for inputs of other shapes",
                       RunError);
}

TEST_CASE("no graph, a null pointer, or a mistake in the second graph") {
  CHECK_THROWS_WITH_AS(compile(std::vector<const Graph*>{}),
                       "there is no graph to compile; give one or more", RunError);
  Declared a(8, 10), b(3, 20);
  a.g.output("y", a.x * 2.0);
  CHECK_THROWS_WITH_AS(compile({&a.g, nullptr}), "graph 1 of the 2 to compile is a null pointer",
                       RunError);
  b.g.output("y", b.x.reshape({7}, at_line(21)));
  CHECK_THROWS_AS(compile({&a.g, &b.g}), GraphError);
}

}  // namespace
}  // namespace metronome::shapes_agreement_test
