// Mistakes that the graph itself finds, each with its whole message.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "tests/error_of.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::mistakes_test {
namespace {

using tests::error_of;

TEST_CASE("an op whose operands miss its rule names them, their lines and both types") {
  CHECK(mistake_of([](Graph& g) {
          const Value x = vector(g);
          const Value long_name = g.input("target", f32, {16}, at(2));
          plus(x, long_name, at(3));
        }) ==
        "tower.cc:3: plus cannot join the graph as \"plus\"\n"
        "  operand 0  f32[4]   \"x\"       tower.cc:1\n"
        "  operand 1  f32[16]  \"target\"  tower.cc:2\n"
        "  requires   equal types, but f32[4] and f32[16]");
}

TEST_CASE("a counter of the graph has no line, and is called so") {
  const auto beside_x = [](Value (Graph::*counter)()) {
    return mistake_of([=](Graph& g) { plus(vector(g), (g.*counter)(), at(3)); });
  };
  const auto text = [](const std::string& counter, const std::string& space) {
    return "tower.cc:3: plus cannot join the graph as \"plus\"\n"
           "  operand 0  f32[4]  \"x\"" +
           space + "  tower.cc:1\n  operand 1  i64[]   \"" + counter +
           "\"  a counter of the graph\n"
           "  requires   equal types, but f32[4] and i64[]";
  };
  CHECK(beside_x(&Graph::seed) == text("seed", "   "));
  CHECK(beside_x(&Graph::replay) == text("replay", "     "));
  CHECK(beside_x(&Graph::update) == text("update", "     "));
}

TEST_CASE("three mistakes make one report of three; what follows from one adds none") {
  const auto all = mistakes([](Graph& g) {
    const Value x = vector(g);
    const Value bad = plus(x, g.input("a", f32, {5}, at(2)), at(3));
    scale(plus(bad, bad, at(4)), 2, at(5));  // poisoned: records nothing
    x.repeat(-1, [](Value h) { return h; }, at(6));
    g.output("", x, at(7));
  });
  REQUIRE(all.size() == 3);
  CHECK(all[0].starts_with("tower.cc:3: plus cannot join"));
  CHECK(all[1].starts_with("tower.cc:6: repeat cannot make -1 copies"));
  CHECK(all[2].starts_with("tower.cc:7: output \"\" cannot be made"));
  CHECK(error_of<GraphError>([] {
          Graph g("g");
          g.output("", vector(g), at(7));
          g.input("", f32, {}, at(8));
          g.validate();
        }) ==
        "tower.cc:7: output \"\" cannot be made\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a name of one letter or more\n"
        "tower.cc:8: input \"\" cannot be made\n"
        "  requires   a name of one letter or more");
}

TEST_CASE("a wrong path hides no other mistake") {
  const auto all = mistakes([](Graph& g) {
    const Value x = vector(g);
    const Value w = g.parameter("w", x.type(), {}, at(2));
    g.state("s", x.type(), {}, at(3));
    g.freeze("heads/**", at(4));
    plus(x, g.parameter("v", at(5)), at(6));
    g.scale_weight_decay("ww", 0, at(7));
    g.thaw("w_1", at(8));      // a sibling may be one that a mistake kept from being made
    g.thaw("decoder", at(9));  // and so may this
    const Value t = g.state("t", x.type(), {}, at(10));
    g.feed(t, plus(x, g.input("five", f32, {5}, at(11)), at(12)));
    g.output("y", plus(x, w));
  });
  REQUIRE(all.size() == 5);
  CHECK(all[0].starts_with("tower.cc:4: freeze(\"heads/**\") finds nothing"));
  CHECK(all[1].starts_with("tower.cc:5: parameter(\"v\") finds nothing"));
  CHECK(all[2].starts_with("tower.cc:7: scale_weight_decay(\"ww\", 0) finds nothing"));
  CHECK(all[3].starts_with("tower.cc:12: plus cannot join the graph"));
  CHECK(all[4].starts_with("tower.cc:3: state \"s\" is never fed"));
}

TEST_CASE("a graph keeps its files' names, whatever becomes of the caller's") {
  std::string file = "tower.cc";
  const Line line{file.c_str(), 7};
  Graph g("g");
  const Value x = g.input("x", f32, {4}, line);
  const Value y = plus(x, g.parameter("w", Type{f32, {4}}, {}, line), line);
  g.output("", y, line);
  std::fill(file.begin(), file.end(), 'z');
  CHECK(to_string(x.node().line) == "tower.cc:7");
  CHECK(to_string(y.node().line) == "tower.cc:7");
  CHECK(to_string(g.data().storage(*g.data().find_storage("w")).line) == "tower.cc:7");
  CHECK_THROWS_WITH_AS(g.validate(),
                       "tower.cc:7: output \"\" cannot be made\n"
                       "  operand 0  f32[4]  \"plus\"  tower.cc:7\n"
                       "  requires   a name of one letter or more",
                       GraphError);
}

TEST_CASE("operands of two graphs") {
  Graph other("other");
  const Value y = vector(other, "y", 1);
  CHECK(mistake_of([&](Graph& g) { plus(vector(g, "x", 2), y, at(3)); }) ==
        "tower.cc:3: plus cannot join the graph as \"plus\"\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:2\n"
        "  operand 1  f32[4]  \"y\"  tower.cc:1\n"
        "  requires   operands of one graph, but of \"g\" and \"other\"");
}

TEST_CASE("an absent operand") {
  CHECK(mistake_of([](Graph& g) { plus(vector(g), Value(), at(3)); }) ==
        "tower.cc:3: plus cannot join the graph as \"plus\"\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  operand 1  absent\n"
        "  requires   every operand, but one is absent (a default-made Value)");
  CHECK_THROWS_WITH_AS(plus(Value(), Value(), at(3)),
                       "tower.cc:3: plus has no operand that belongs to a graph\n"
                       "  way out    begin with Graph::input or Graph::parameter",
                       GraphError);
}

TEST_CASE("names are new") {
  CHECK(mistake_of([](Graph& g) {
          vector(g);
          vector(g, "x", 2);
        }) ==
        "tower.cc:2: input \"x\" cannot be made\n"
        "  requires   a new name, but one was made at tower.cc:1");
  CHECK(mistake_of([](Graph& g) {
          weight(g);
          g.parameter("w", Type{f32, {4}}, {}, at(3));
        }) ==
        "tower.cc:3: parameter \"w\" cannot be made\n"
        "  requires   a new path, but one was made at tower.cc:2\n"
        "  way out    give it another name, or a scope");
  CHECK(mistake_of([](Graph& g) {
          g.output("y", vector(g), at(2));
          g.output("y", vector(g, "z"), at(3));
        }) ==
        "tower.cc:3: output \"y\" cannot be made\n"
        "  operand 0  f32[4]  \"z\"  tower.cc:1\n"
        "  requires   a new name, but it names a value already");
  CHECK(mistake_of([](Graph& g) { vector(g).named("h", at(2)).named("h", at(3)); }) ==
        "tower.cc:3: named(\"h\") is taken\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a new name, but \"h\" names a value already");
}

TEST_CASE("types of what is declared") {
  CHECK(mistake_of([](Graph& g) { g.input("x", f32, {4, -1}, at(1)); }) ==
        "tower.cc:1: input \"x\" cannot be made\n"
        "  requires   sizes of 0 or more, but [4, -1]\n"
        "  way out    declare the graph once for each batch size, and compile them together: "
        "compile({&a, &b})");
  CHECK(mistake_of([](Graph& g) { g.input("x", f32, {-2, 4}, at(1)); }) ==
        "tower.cc:1: input \"x\" cannot be made\n"
        "  requires   sizes of 0 or more, but [-2, 4]");
  CHECK(mistake_of([](Graph& g) { g.parameter("w", Type{i64, {4}}, {}, at(1)); }) ==
        "tower.cc:1: parameter \"w\" cannot be made\n"
        "  requires   a floating element type, but i64[4]");
  CHECK(mistake_of([](Graph& g) {
          g.parameter("w", Type{f32, {3}}, {Init::Kind::values, 0, 0, {1, 2}}, at(1));
        }) ==
        "tower.cc:1: parameter \"w\" cannot be made\n"
        "  requires   3 initial values for f32[3], but 2");
  CHECK(mistake_of([](Graph& g) { g.constant({1, 2}, Type{f32, {3}}, at(1)); }) ==
        "tower.cc:1: constant cannot be made\n"
        "  requires   3 numbers for f32[3], but 2");
}

TEST_CASE("the loss") {
  CHECK(mistake_of([](Graph& g) { g.minimize(weight(g), Descent{}, at(3)); }) ==
        "tower.cc:3: minimize cannot take the loss\n"
        "  operand 0  f32[4]  \"w\"  tower.cc:2\n"
        "  requires   a floating scalar f32[] or f64[], but f32[4]\n"
        "  way out    reduce it with mt::mean or mt::sum");
  CHECK(mistake_of([](Graph& g) { g.minimize(g.input("x", f32, {}, at(1)), Descent{}, at(3)); }) ==
        "tower.cc:3: minimize has nothing to train\n"
        "  requires   a loss that reaches a trainable parameter\n"
        "  way out    thaw a parameter, or leave minimize out and compile the forward pass alone");
}

TEST_CASE("gradients are read, not computed with") {
  CHECK(mistake_of([](Graph& g) { g.gradient(g.input("i", i64, {4}, at(1)), at(2)); }) ==
        "tower.cc:2: gradient cannot be kept\n"
        "  operand 0  i64[4]  \"i\"  tower.cc:1\n"
        "  requires   a floating value of this graph, but i64[4]");
  CHECK(mistake_of([](Graph& g) {
          const Value w = g.parameter("w", Type{f32, {}}, {}, at(2));
          g.minimize(scale(w, 2), Descent{});
          const Value twice = scale(g.gradient(w, at(3)), 2, at(3));
          CHECK_FALSE(twice.poisoned());
          g.gradient(twice, at(4));
        }) ==
        "tower.cc:4: gradient_of cannot join the graph as \"gradient_of_1\"\n"
        "  operand 0  f32[]  \"scale_1\"  tower.cc:3\n"
        "  requires   what is computed in the forward pass, but this, made of gradients or of the "
        "update, comes after it");
  CHECK(mistake_of([](Graph& g) {
          const Value w = weight(g);
          g.minimize(g.gradient(g.parameter("s", Type{f32, {}}, {}, at(2)), at(3)), Descent{},
                     at(4));
          g.output("w", w);
        }) ==
        "tower.cc:4: minimize cannot take the loss\n"
        "  operand 0  f32[]  \"gradient_of\"  tower.cc:3\n"
        "  requires   what is computed in the forward pass, but a gradient comes after it");
  CHECK(mistake_of([](Graph& g) {
          const Value w = g.parameter("w", Type{f32, {}}, {}, at(1));
          const Value s = g.state("s", Type{f32, {}}, {}, at(2));
          g.minimize(scale(w, 2), Descent{});
          g.feed(s, g.gradient(w, at(3)), at(4));
        }) ==
        "tower.cc:4: feed cannot take the value back\n"
        "  operand 0  f32[]  \"s\"            tower.cc:2\n"
        "  operand 1  f32[]  \"gradient_of\"  tower.cc:3\n"
        "  requires   what is computed in the forward pass, but a gradient comes after it");
  CHECK(mistake_of([](Graph& g) {
          const Value w = g.parameter("w", Type{f32, {}}, {}, at(1));
          const Buffer b = g.buffer("b", Type{f32, {}}, {}, at(2));
          g.minimize(scale(w, 2), Descent{});
          g.assign(b, g.gradient(w, at(3)), at(4));
        }) ==
        "tower.cc:4: assign cannot take the value\n"
        "  operand 0  f32[]  \"b\"            tower.cc:2\n"
        "  operand 1  f32[]  \"gradient_of\"  tower.cc:3\n"
        "  requires   what is computed in the forward pass, but a gradient comes after it");
  CHECK(mistake_of([](Graph& g) { g.gradient(weight(g), at(3)); }) ==
        "graph \"g\": gradient(value) has no loss\n"
        "  requires   one Graph::minimize(loss, optimizer)");
}

TEST_CASE("verbs") {
  CHECK(mistake_of([](Graph& g) { vector(g).repeat(-1, [](Value h) { return h; }, at(2)); }) ==
        "tower.cc:2: repeat cannot make -1 copies\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   0 copies or more, but -1");
  CHECK(mistake_of([](Graph& g) { vector(g).loop([](Value h) { return h; }).times(0, at(2)); }) ==
        "tower.cc:2: loop cannot run 0 times\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   1 time or more, but 0");
  CHECK(mistake_of([](Graph& g) {
          vector(g).loop([](Value h) { return head(h, 0, 2, at(3)); }).times(2, at(2));
        }) ==
        "tower.cc:2: loop cannot feed its body's result back\n"
        "  operand 0  f32[4]  \"x\"            tower.cc:1\n"
        "  operand 1  f32[2]  \"loop/0/head\"  tower.cc:3\n"
        "  requires   a body that keeps the type, but f32[4] becomes f32[2]");
  CHECK(mistake_of([](Graph& g) { vector(g).split(Layers(std::vector<Layer>{}), at(2)); }) ==
        "tower.cc:2: split cannot make branches\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   one layer or more, but the list is empty");
  CHECK(mistake_of([](Graph& g) {
          vector(g).split(Layers([](int) -> Layer { return [](Value h) { return h; }; }), at(2));
        }) ==
        "tower.cc:2: split cannot make branches\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   the number of branches beside the factory\n"
        "  way out    mt::Layers(factory, count)");
  CHECK(mistake_of([](Graph& g) { vector(g).scope("a/b", [](Value h) { return h; }, at(2)); }) ==
        "tower.cc:2: scope(\"a/b\") cannot be opened\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a name of one letter or more without '/'");
}

TEST_CASE("shared weights keep their shape and their graph") {
  const Layer layer = [](Value h) {
    return plus(h, make_parameter(h.emitter(), "w", h.type(), {}, at(9)), at(9));
  };
  CHECK(mistake_of([&](Graph& g) {
          const Layer once = shared(layer);
          vector(g).through(once, at(2));
          g.input("y", f32, {5}, at(3)).through(once, at(4));
        }) ==
        "tower.cc:9: parameter \"shared/w\" cannot be made\n"
        "  requires   the shared parameter f32[4] of tower.cc:9, but parameter f32[5]\n"
        "  way out    inputs of one shape at each use of shared weights");
  Graph other("other");
  const Layer once = shared(layer);
  vector(other).through(once);
  CHECK(mistake_of([&](Graph& g) { vector(g).through(once, at(2)); }) ==
        "tower.cc:2: a shared layer cannot serve two graphs\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   the graph of its first call, \"other\", but \"g\"");
}

TEST_CASE("a buffer keeps its type") {
  CHECK(mistake_of([](Graph& g) {
          const Buffer b = g.buffer("mean", Type{f32, {}}, {}, at(1));
          g.assign(b, vector(g, "x", 2), at(3));
        }) ==
        "tower.cc:3: assign cannot take the value\n"
        "  operand 0  f32[]   \"mean\"  tower.cc:1\n"
        "  operand 1  f32[4]  \"x\"     tower.cc:2\n"
        "  requires   the buffer's type f32[], but f32[4]");
}

}  // namespace
}  // namespace metronome::testing::mistakes_test
