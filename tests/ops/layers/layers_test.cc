// Layers: the paths, types and initial values of what they make, and what they say of wrong
// arguments and operands.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/builder/graph.h"
#include "graph/ir/error.h"
#include "graph/passes/for_mode.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/language/layers.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/graph/mistake_of.h"
#include "tests/ops/declared.h"

namespace metronome::layers_test {
namespace {

using tests::storages;

Line at(int number) { return {"tower.cc", number}; }

const Init& init_of(const ir::Graph& g, std::string_view path) {
  return g.storage(g.find_storage(path).value()).init;
}

/// The one mistake of applying a layer to an input "x".
std::string mistake_of(const Layer& layer, Element element, Shape shape) {
  Graph g("tower");
  const Value y = g.input("x", element, std::move(shape), at(1)).through(layer, at(2));
  CHECK(y.poisoned());
  CHECK(storages(g).empty());
  return testing::mistake_of(g);
}

TEST_CASE("linear makes a weight and a bias, both uniform in +-1/sqrt(in)") {
  Graph g("tower");
  const Value y = g.input("x", f64, {2, 3, 16}).scope("head", linear(5));
  CHECK(y.type() == Type{f64, {2, 3, 5}});
  CHECK(y.node().path == "head/linear");
  CHECK(storages(g) ==
        std::vector<std::string>{"f64[5, 16] head/linear/weight", "f64[5] head/linear/bias"});
  CHECK(init_of(g, "head/linear/bias") == uniform(-0.25, 0.25));
  const Init& weight = init_of(g, "head/linear/weight");
  CHECK(weight.kind == Init::Kind::uniform);
  CHECK(weight.b == doctest::Approx(0.25).epsilon(1e-15));
  CHECK(weight.a == -weight.b);
}

TEST_CASE("linear without a bias") {
  Graph g("tower");
  g.input("x", f32, {4, 8}).through(linear(3, {.bias = false}));
  CHECK(storages(g) == std::vector<std::string>{"f32[3, 8] linear/weight"});
}

TEST_CASE("each application of a layer makes parameters of its own") {
  Graph g("tower");
  const Layer layer = linear(8);
  g.input("x", f32, {4, 8}).through(layer).repeat(2, layer);
  CHECK(storages(g) == std::vector<std::string>{
                           "f32[8, 8] linear/weight", "f32[8] linear/bias",
                           "f32[8, 8] repeat/0/linear/weight", "f32[8] repeat/0/linear/bias",
                           "f32[8, 8] repeat/1/linear/weight", "f32[8] repeat/1/linear/bias"});
}

TEST_CASE("layer_norm begins as ones and zeros") {
  Graph g("tower");
  const Value y = g.input("x", f32, {4, 8}).through(layer_norm());
  CHECK(y.type() == Type{f32, {4, 8}});
  CHECK(storages(g) ==
        std::vector<std::string>{"f32[8] layer_norm/weight", "f32[8] layer_norm/bias"});
  CHECK(init_of(g, "layer_norm/weight") == ones());
  CHECK(init_of(g, "layer_norm/bias") == zeros());
}

TEST_CASE("batch_norm keeps running statistics") {
  Graph g("tower");
  const Value y = g.input("x", f32, {4, 3, 5, 5}).through(batch_norm());
  CHECK(y.type() == Type{f32, {4, 3, 5, 5}});
  CHECK(storages(g) == std::vector<std::string>{
                           "f32[3] batch_norm/weight", "f32[3] batch_norm/bias",
                           "f32[3] batch_norm/running_mean", "f32[3] batch_norm/running_var"});
  CHECK(init_of(g, "batch_norm/running_mean") == zeros());
  CHECK(init_of(g, "batch_norm/running_var") == ones());
  REQUIRE(g.data().assignments().size() == 2);
  CHECK(g.data().assignments()[0].value == ValueId{y.id().node, 1});
  CHECK(g.data().assignments()[1].value == ValueId{y.id().node, 2});
}

TEST_CASE("in evaluation batch_norm reads its statistics and dropout is the identity") {
  Graph g("tower");
  g.output("y", g.input("x", f32, {4, 3}).through(batch_norm()).through(dropout(0.5)));
  Settings settings;
  settings.mode = evaluate;
  const ir::Graph evaluation = passes::for_mode(g, settings);
  CHECK(evaluation.assignments().empty());
  const Node& y = evaluation.node(evaluation.readables()[0].value);
  CHECK(y.op->name() == "batch_norm_evaluate");
}

TEST_CASE("two dropouts have keys of their own") {
  Graph g("tower");
  const Value a = g.input("x", f32, {4, 8}).through(dropout());
  const Value b = a.through(dropout());
  CHECK(a.node().path == "dropout");
  CHECK(b.node().path == "dropout_1");
  CHECK_FALSE(a.node().op->equals(*b.node().op));
}

TEST_CASE("embedding draws its table from N(0, 1)") {
  Graph g("tower");
  const Value y = g.input("tokens", i64, {4, 16}).through(embedding(256, 32));
  CHECK(y.type() == Type{f32, {4, 16, 32}});
  CHECK(storages(g) == std::vector<std::string>{"f32[256, 32] embedding/weight"});
  CHECK(init_of(g, "embedding/weight") == normal(0, 1));
}

TEST_CASE("softmax is a layer and a function") {
  Graph g("tower");
  const Value x = g.input("x", f32, {4, 8});
  CHECK(x.through(softmax()).node().op->equals(*softmax(x, -1).node().op));
  CHECK(x.through(log_softmax(0)).node().op->attributes() == "axis=0, log");
  CHECK(storages(g).empty());
}

TEST_CASE("matmul broadcasts leading dimensions") {
  Graph g("tower");
  const Value a = g.input("a", f32, {3, 1, 4, 5}), b = g.input("b", f32, {2, 5, 6});
  CHECK(matmul(a, b).shape() == Shape{3, 2, 4, 6});
}

TEST_CASE("linear of no outputs") {
  CHECK(mistake_of(linear(0), f32, {4, 16}) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  f32[4, 16]  \"x\"  tower.cc:1\n"
        "  requires   a number of outputs of 1 or more, but 0");
}

TEST_CASE("linear on a scalar") {
  CHECK(mistake_of(linear(4), f32, {}) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  f32[]  \"x\"  tower.cc:1\n"
        "  requires   an operand of one or more dimensions, but a scalar\n"
        "  way out    x.reshape({1})");
}

TEST_CASE("linear on no features") {
  CHECK(mistake_of(linear(4), f32, {4, 0}) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  f32[4, 0]  \"x\"  tower.cc:1\n"
        "  requires   a last dimension of 1 or more, but 0");
}

TEST_CASE("linear on integers") {
  CHECK(mistake_of(linear(4), i64, {4, 16}) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  i64[4, 16]  \"x\"  tower.cc:1\n"
        "  requires   a floating element type, but i64\n"
        "  way out    cast it: x.cast(mt::f32); or look up rows: mt::embedding(vocabulary, width)");
}

TEST_CASE("rms_norm begins as ones, with the element's machine epsilon unless another is given") {
  Graph g("tower");
  const Value y = g.input("x", f32, {4, 8}).through(rms_norm());
  CHECK(y.type() == Type{f32, {4, 8}});
  CHECK(storages(g) == std::vector<std::string>{"f32[8] rms_norm/weight"});
  CHECK(init_of(g, "rms_norm/weight") == ones());
  CHECK(y.node().op->as<RmsNorm>()->eps == 0x1p-23);
  const Value z = g.input("z", f64, {4, 8}).through(rms_norm());
  CHECK(z.node().op->as<RmsNorm>()->eps == 0x1p-52);
  CHECK(y.through(rms_norm({.eps = 0.5})).node().op->as<RmsNorm>()->eps == 0.5);
}

TEST_CASE("rms_norm on a scalar") {
  CHECK(mistake_of(rms_norm(), f32, {}) ==
        "tower.cc:2: rms_norm cannot be applied\n"
        "  operand 0  f32[]  \"x\"  tower.cc:1\n"
        "  requires   an operand of one or more dimensions, but a scalar\n"
        "  way out    x.reshape({1})");
}

TEST_CASE("layer_norm on a scalar") {
  CHECK(mistake_of(layer_norm(), f32, {}) ==
        "tower.cc:2: layer_norm cannot be applied\n"
        "  operand 0  f32[]  \"x\"  tower.cc:1\n"
        "  requires   an operand of one or more dimensions, but a scalar\n"
        "  way out    x.reshape({1})");
}

TEST_CASE("layer_norm with a negative eps") {
  CHECK(mistake_of(layer_norm({.eps = -1}), f32, {4, 16}) ==
        "tower.cc:2: layer_norm cannot be applied\n"
        "  operand 0  f32[4, 16]  \"x\"  tower.cc:1\n"
        "  requires   a finite eps of 0 or more, but -1");
}

TEST_CASE("layer_norm on booleans") {
  CHECK(mistake_of(layer_norm(), bool_, {4}) ==
        "tower.cc:2: layer_norm cannot be applied\n"
        "  operand 0  bool[4]  \"x\"  tower.cc:1\n"
        "  requires   a floating element type, but bool\n"
        "  way out    cast it: x.cast(mt::f32)");
}

TEST_CASE("batch_norm on a vector") {
  CHECK(mistake_of(batch_norm(), f32, {16}) ==
        "tower.cc:2: batch_norm cannot be applied\n"
        "  operand 0  f32[16]  \"x\"  tower.cc:1\n"
        "  requires   an operand [N, C, ...] of two or more dimensions, but 1");
}

TEST_CASE("batch_norm with a momentum beyond 1") {
  CHECK(mistake_of(batch_norm({.momentum = 1.5}), f32, {4, 16}) ==
        "tower.cc:2: batch_norm cannot be applied\n"
        "  operand 0  f32[4, 16]  \"x\"  tower.cc:1\n"
        "  requires   a momentum from 0 to 1, but 1.5");
}

TEST_CASE("batch_norm on one row: evaluated, but not trained") {
  const auto graph_of = [](std::int64_t rows) {
    Graph g("tower");
    const Value x = g.input("x", f32, {rows, 2}, at(1));
    g.output("y", x.repeat(2, batch_norm(), at(2)).through(batch_norm(), at(3)), at(4));
    return g;
  };
  const auto mistakes_of = [](const Graph& g) {
    g.validate();
    try {
      passes::for_mode(g, {});
    } catch (const GraphError& error) {
      return error.mistakes();
    }
    return std::vector<std::string>{};
  };
  CHECK(mistakes_of(graph_of(2)).empty());
  const Graph g = graph_of(1);
  const std::vector<std::string> found = mistakes_of(g);  // one of each line
  REQUIRE(found.size() == 2);
  CHECK(found[0] ==
        R"(tower.cc:2: batch_norm "repeat/0/batch_norm" cannot be trained
  operand 0  f32[1, 2]  "x"                                 tower.cc:1
  operand 1  f32[2]     "repeat/0/batch_norm/weight"        tower.cc:2
  operand 2  f32[2]     "repeat/0/batch_norm/bias"          tower.cc:2
  operand 3  f32[2]     "repeat/0/batch_norm/running_mean"  tower.cc:2
  operand 4  f32[2]     "repeat/0/batch_norm/running_var"   tower.cc:2
  requires   two or more elements of each channel, as one has no variance, but 1
  way out    train with a larger batch, or compile with .modes = {mt::evaluate} alone)");
  CHECK(found[1].starts_with("tower.cc:3: batch_norm \"batch_norm\" cannot be trained"));
  Settings settings;
  settings.mode = Mode::evaluate;
  CHECK(passes::for_mode(g, settings).nodes().back().op->name() == "batch_norm_evaluate");
}

TEST_CASE("batch_norm on one row among several batch shapes") {
  const auto graph_of = [](std::int64_t rows) {
    Graph g("tower");
    const Value x = g.input("x", f32, {rows, 2}, at(1));
    g.output("y", x.through(batch_norm(), at(2)), at(4));
    return g;
  };
  const Graph whole = graph_of(4), last = graph_of(1);
  const std::string found = tests::error_of<GraphError>([&] { compile({&whole, &last}); });
  CHECK(
      found.starts_with("tower.cc:2: batch_norm \"batch_norm\" cannot be trained\n"
                        "  operand 0  f32[1, 2]  \"x\""));
  Executable step = compile({&whole, &last}, cpu_replay(), {.modes = {Mode::evaluate}});
  step.evaluate({{"x", at::ones({1, 2})}});
  CHECK(at::allclose(step.read("y"), at::ones({1, 2}), 1e-4));
}

TEST_CASE("linear of more outputs than memory holds is one mistake") {
  CHECK(mistake_of(linear(std::int64_t{1} << 62), f32, {4, 16}) ==
        "tower.cc:2: parameter \"linear/weight\" cannot be made\n"
        "  requires   a value of at most 128 TiB, 140737488355328 bytes, but "
        "f32[4611686018427387904, 16] takes 2.95e+20");
}

TEST_CASE("layers of numbers that are infinite or none") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto requires_ = [](const Layer& layer) {
    const std::string all = mistake_of(layer, f32, {4, 16}), word = "  requires   ";
    return all.substr(all.find(word) + word.size());
  };
  CHECK(requires_(rms_norm({.eps = -0.5})) == "a finite eps of 0 or more, but -0.5");
  CHECK(requires_(layer_norm({.eps = inf})) == "a finite eps of 0 or more, but inf");
  CHECK(requires_(batch_norm({.eps = std::nan("")})) == "a finite eps of 0 or more, but nan");
  CHECK(requires_(batch_norm({.momentum = inf})) == "a momentum from 0 to 1, but inf");
  CHECK(requires_(dropout(inf)) == "a probability from 0 to 1, but inf");
}

TEST_CASE("dropout with a probability beyond 1") {
  CHECK(mistake_of(dropout(1.5), f32, {4, 16}) ==
        "tower.cc:2: dropout cannot be applied\n"
        "  operand 0  f32[4, 16]  \"x\"  tower.cc:1\n"
        "  requires   a probability from 0 to 1, but 1.5");
}

TEST_CASE("dropout of no number") {
  CHECK(mistake_of(dropout(std::nan("")), f32, {4}) ==
        "tower.cc:2: dropout cannot be applied\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a probability from 0 to 1, but nan");
}

TEST_CASE("dropout on integers") {
  CHECK(mistake_of(dropout(0.1), i32, {4}) ==
        "tower.cc:2: dropout cannot be applied\n"
        "  operand 0  i32[4]  \"x\"  tower.cc:1\n"
        "  requires   a floating element type, but i32\n"
        "  way out    cast it: x.cast(mt::f32)");
}

TEST_CASE("embedding by floating numbers") {
  CHECK(mistake_of(embedding(10, 4), f32, {3}) ==
        "tower.cc:2: embedding cannot be applied\n"
        "  operand 0  f32[3]  \"x\"  tower.cc:1\n"
        "  requires   an index of i32 or i64, but f32\n"
        "  way out    cast it: index.cast(mt::i64)");
}

TEST_CASE("embedding without a vocabulary") {
  CHECK(mistake_of(embedding(0, 4), i64, {3}) ==
        "tower.cc:2: embedding cannot be applied\n"
        "  operand 0  i64[3]  \"x\"  tower.cc:1\n"
        "  requires   a vocabulary of 1 or more, but 0");
}

TEST_CASE("embedding with a table of integers") {
  CHECK(mistake_of(embedding(10, 4, {.element = i32}), i64, {3}) ==
        "tower.cc:2: embedding cannot be applied\n"
        "  operand 0  i64[3]  \"x\"  tower.cc:1\n"
        "  requires   a table of a floating element type, but i32");
}

TEST_CASE("softmax along an axis that is not there") {
  CHECK(mistake_of(softmax(2), f32, {4, 16}) ==
        "tower.cc:2: softmax cannot join the graph as \"softmax\"\n"
        "  operand 0  f32[4, 16]  \"x\"  tower.cc:1\n"
        "  requires   an axis from -2 to 1, but 2");
}

TEST_CASE("matmul of matrices that do not fit") {
  Graph g("tower");
  matmul(g.input("a", f32, {4, 5}, at(1)), g.input("b", f32, {4, 5}, at(2)), at(3));
  CHECK_THROWS_WITH_AS(g.validate(),
                       doctest::Contains("tower.cc:3: matmul cannot join the graph as \"matmul\"\n"
                                         "  operand 0  f32[4, 5]  \"a\"  tower.cc:1\n"
                                         "  operand 1  f32[4, 5]  \"b\"  tower.cc:2\n"
                                         "  requires   equal inner dimensions, but 5 and 4"),
                       GraphError);
}

TEST_CASE("matmul of batches that do not broadcast") {
  Graph g("tower");
  matmul(g.input("a", f32, {2, 4, 5}), g.input("b", f32, {3, 5, 6}));
  CHECK_THROWS_WITH_AS(
      g.validate(),
      doctest::Contains("  requires   leading dimensions that broadcast, but [2] and [3]"),
      GraphError);
}

TEST_CASE("matmul of a vector") {
  Graph g("tower");
  matmul(g.input("a", f32, {5}), g.input("b", f32, {5, 6}));
  CHECK_THROWS_WITH_AS(g.validate(),
                       doctest::Contains("  requires   operands of two or more dimensions, but 1\n"
                                         "  way out    reshape a vector to one row or one column"),
                       GraphError);
}

TEST_CASE("a layer on no value at all names the caller") {
  CHECK_THROWS_WITH_AS(linear(4)(Value(), at(7)),
                       "tower.cc:7: linear has no operand that belongs to a graph\n"
                       "  way out    begin with Graph::input or Graph::parameter",
                       GraphError);
}

TEST_CASE("a layer on a poisoned value says nothing more") {
  CHECK(mistake_of([](Value x) { return x.through(linear(0), at(2)).through(linear(4), at(3)); },
                   f32, {4, 16}) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  f32[4, 16]  \"x\"  tower.cc:1\n"
        "  requires   a number of outputs of 1 or more, but 0");
}

}  // namespace
}  // namespace metronome::layers_test
