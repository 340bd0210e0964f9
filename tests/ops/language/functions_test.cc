// Errors for users who misuse the functions of ops/expr/functions.h: whole texts. "@1" stands for
// the first line after the one that made `at`.
#include "ops/expr/functions.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <string>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"
#include "ops/language/layers.h"
#include "ops/losses/losses.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/ops/declared.h"

namespace metronome::functions_test {
namespace {

using tests::error_of;
using tests::lines;
using tests::mistakes;

TEST_CASE("values of a graph that was destroyed: the line is the caller's") {
  Value x;
  {
    Graph old("old");
    x = old.input("x", f32, {64, 256});
  }
  Graph g("g");
  const Value y = g.input("y", f32, {64, 256});
  const auto check = [](int line, const std::function<void()>& call) {
    const std::string said = error_of<GraphError>(call);
    CAPTURE(line);
    CHECK(said.starts_with(
        fmt::format("{}:{}: a value of graph \"old\" is used, but that graph was destroyed\n",
                    __FILE__, line)));
  };
  check(__LINE__, [&] { x + y; });
  check(__LINE__, [&] { y + x; });
  check(__LINE__, [&] { 2.0 * x; });
  check(__LINE__, [&] { y == x; });
  check(__LINE__, [&] { sum(x, 0); });
  check(__LINE__, [&] { exp(x); });
  check(__LINE__, [&] { where(x, y, y); });
  check(__LINE__, [&] { x.cast(f64); });
  check(__LINE__, [&] { x.reshape({-1}); });
  check(__LINE__, [&] { x.transpose(0, 1); });
  check(__LINE__, [&] { x.slice(0, 0, 1); });
  check(__LINE__, [&] { concat({y, x}, 0); });
  check(__LINE__, [&] { stack({x, y}, 0); });
  check(__LINE__, [&] { chunk(x, 2, 0); });
  check(__LINE__, [&] { mse_loss(y, x); });
  check(__LINE__, [&] { cross_entropy_loss(x, y); });
  check(__LINE__, [&] { x.through(linear(3)); });
  check(__LINE__, [&] { x.through(dropout(0.5)); });
  check(__LINE__, [&] { x.also(linear(256)); });
  check(__LINE__, [&] { x.gate(linear(2), {linear(1), linear(1)}); });
  check(__LINE__, [&] { x.route(linear(2), {linear(1), linear(1)}); });
  check(__LINE__, [&] { x.each(linear(1)); });
  check(__LINE__, [&] { x.slices(2, linear(1)); });
}

TEST_CASE("operands of unequal sizes") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {64, 256});
  const auto y = g.input("y", f32, {64, 128});
  x + y;
  CHECK(mistakes(g) == lines(at, R"(@3: add cannot join the graph as "add"
  operand 0  f32[64, 256]  "x"  @1
  operand 1  f32[64, 128]  "y"  @2
  requires   equal last dimensions, or one of them 1, but 256 and 128)"));
}

TEST_CASE("operands of unequal element types") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {3});
  const auto y = g.input("y", f64, {3});
  x* y;
  CHECK(mistakes(g) == lines(at, R"(@3: mul cannot join the graph as "mul"
  operand 0  f32[3]  "x"  @1
  operand 1  f64[3]  "y"  @2
  requires   equal element types, but f32 and f64
  way out    cast operand 0 to f64: x.cast(mt::f64))"));
}

TEST_CASE("the way out of unequal element types loses nothing: PyTorch's promotion") {
  const auto way_out = [](const std::function<void(Graph&)>& make) {
    Graph g("g");
    make(g);
    const std::string all = mistakes(g), word = "  way out    ";
    return all.substr(all.find(word) + word.size());
  };
  const auto product = [&](Element a, Element b) {
    return way_out([=](Graph& g) { g.input("a", a, {3}) * g.input("b", b, {3}); });
  };
  CHECK(product(i64, f32) == "cast operand 0 to f32: x.cast(mt::f32)");
  CHECK(product(f32, i64) == "cast operand 1 to f32: x.cast(mt::f32)");
  CHECK(product(bool_, f32) == "cast operand 0 to f32: x.cast(mt::f32)");
  CHECK(product(i32, i64) == "cast operand 0 to i64: x.cast(mt::i64)");
  CHECK(product(f64, f32) == "cast operand 1 to f64: x.cast(mt::f64)");
  CHECK(way_out([](Graph& g) {
          where(g.input("c", bool_, {3}), g.input("x", f32, {3}), g.input("y", i64, {3}));
        }) == "cast operand 2 to f32: x.cast(mt::f32)");
  CHECK(way_out([](Graph& g) {
          const auto x = g.input("x", i32, {3});
          concat({x, g.input("y", f64, {3}), x}, 0);
        }) == "cast operands 0, 2 to f64: x.cast(mt::f64)");
}

TEST_CASE("numbers that the value beside them cannot take") {
  const auto requires_ = [](const std::function<void(Graph&)>& make) {
    Graph g("g");
    make(g);
    const std::string all = mistakes(g), word = "  requires   ";
    return all.substr(all.find(word) + word.size());
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(requires_([](Graph& g) { g.input("x", i32, {3}) + nan; }) ==
        "a whole number that i32 can hold, but nan\n"
        "  way out    cast the value first: x.cast(mt::f32)");
  CHECK(requires_([](Graph& g) { g.input("x", f32, {3}) + 1e300; }) ==
        "a number that f32 can hold, but 1e+300\n"
        "  way out    cast the value first: x.cast(mt::f64)");
  CHECK(requires_([](Graph& g) { equal(g.input("x", bool_, {3}), 2); }) ==
        "0 or 1 for bool, but 2\n"
        "  way out    cast the value first: x.cast(mt::f32)");
  CHECK(requires_([](Graph& g) { clamp(g.input("x", i64, {3}), 0, 1.5); }) ==
        "a whole number that i64 can hold, but 1.5\n"
        "  way out    cast the value first: x.cast(mt::f64)");
}

TEST_CASE("sizes that no memory has") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", bool_, {1LL << 40, 1}), y = g.input("y", bool_, {1, 1LL << 40});
  expand(x, {1LL << 40, 1LL << 40});
  logical_and(x, y);
  x.reshape({1LL << 62, 1LL << 62, 0});
  chunk(x, 1LL << 60, 0);
  CHECK(mistakes(g) == lines(at, R"(@2: expand cannot join the graph as "expand"
  operand 0  bool[1099511627776, 1]  "x"  @1
  requires   a value of at most 128 TiB, 140737488355328 bytes, but bool[1099511627776, 1099511627776] takes 1.21e+24
@3: logical_and cannot join the graph as "logical_and"
  operand 0  bool[1099511627776, 1]  "x"  @1
  operand 1  bool[1, 1099511627776]  "y"  @1
  requires   a value of at most 128 TiB, 140737488355328 bytes, but bool[1099511627776, 1099511627776] takes 1.21e+24
@4: reshape cannot join the graph as "reshape"
  operand 0  bool[1099511627776, 1]  "x"  @1
  requires   a value of at most 128 TiB, 140737488355328 bytes, but bool[4611686018427387904, 4611686018427387904, 0] takes 2.13e+37
@5: chunk cannot join the graph as "chunk"
  operand 0  bool[1099511627776, 1]  "x"  @1
  requires   1000000 parts or fewer, but 1152921504606846976)"));
}

TEST_CASE("a function of integers that is not defined for them") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", i64, {3});
  exp(x);
  x.through(gelu);
  CHECK(mistakes(g) == lines(at, R"(@2: exp cannot join the graph as "exp"
  operand 0  i64[3]  "x"  @1
  requires   a floating element type, but i64
  way out    cast it: x.cast(mt::f32)
@3: gelu cannot join the graph as "gelu"
  operand 0  i64[3]  "x"  @1
  requires   a floating element type, but i64
  way out    cast it: x.cast(mt::f32))"));
}

TEST_CASE("arithmetic of booleans") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", bool_, {2});
  -x;
  CHECK(mistakes(g) == lines(at, R"(@2: neg cannot join the graph as "neg"
  operand 0  bool[2]  "x"  @1
  requires   a number element type, but bool
  way out    cast it: x.cast(mt::f32))"));
}

TEST_CASE("logic of numbers") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {2});
  logical_and(x, x);
  CHECK(mistakes(g) == lines(at, R"(@2: logical_and cannot join the graph as "logical_and"
  operand 0  f32[2]  "x"  @1
  operand 1  f32[2]  "x"  @1
  requires   the element type bool, but f32
  way out    compare it: mt::not_equal(x, 0))"));
}

TEST_CASE("a fraction beside integers") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", i64, {3});
  x + 0.5;
  CHECK(mistakes(g) == lines(at, R"(@2: add cannot take the number 0.5
  operand 0  i64[3]  "x"  @1
  requires   a whole number that i64 can hold, but 0.5
  way out    cast the value first: x.cast(mt::f32))"));
}

TEST_CASE("a number too large for i32") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", i32, {3});
  x < 3e9;
  CHECK(mistakes(g) == lines(at, R"(@2: less cannot take the number 3000000000
  operand 0  i32[3]  "x"  @1
  requires   a whole number that i32 can hold, but 3000000000
  way out    cast the value first: x.cast(mt::f32))"));
}

TEST_CASE("a choice between two numbers") {
  Graph g("g");
  const int at = __LINE__;
  const auto c = g.input("c", bool_, {3});
  where(c, 1.0, 0.0);
  CHECK(mistakes(g) == lines(at, R"(@2: where cannot take the number 1
  operand 0  bool[3]  "c"  @1
  requires   a value beside it to take the element type from, but both are numbers
  way out    say the type: g.constant(1, mt::f32))"));
}

TEST_CASE("a condition that is not boolean") {
  Graph g("g");
  const int at = __LINE__;
  const auto c = g.input("c", f32, {3});
  where(c, c, c);
  CHECK(mistakes(g) == lines(at, R"(@2: where cannot join the graph as "where"
  operand 0  f32[3]  "c"  @1
  operand 1  f32[3]  "c"  @1
  operand 2  f32[3]  "c"  @1
  requires   a condition of bool, but f32
  way out    compare it: mt::not_equal(x, 0))"));
}

TEST_CASE("bounds the wrong way round") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {3});
  clamp(x, 2, -1);
  CHECK(mistakes(g) == lines(at, R"(@2: clamp cannot join the graph as "clamp"
  operand 0  f32[3]  "x"  @1
  requires   a lower bound that is not above the upper one, but 2 and -1)"));
}

TEST_CASE("an axis out of range") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  sum(x, 2);
  mean(x, {0, -3});
  argmax(x, 5);
  CHECK(mistakes(g) == lines(at, R"(@2: sum cannot join the graph as "sum"
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but 2
@3: mean cannot join the graph as "mean"
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but -3
@4: argmax cannot join the graph as "argmax"
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but 5)"));
}

TEST_CASE("an axis twice") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  max(x, {1, -1});
  CHECK(mistakes(g) == lines(at, R"(@2: max cannot join the graph as "max"
  operand 0  f32[4, 3]  "x"  @1
  requires   each axis once, but 1 twice)"));
}

TEST_CASE("the largest of nothing") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 0});
  max(x, 1);
  argmax(x, 1);
  CHECK(mistakes(g) == lines(at, R"(@2: max cannot join the graph as "max"
  operand 0  f32[4, 0]  "x"  @1
  requires   one element or more along the axes, but 0
@3: argmax cannot join the graph as "argmax"
  operand 0  f32[4, 0]  "x"  @1
  requires   one element or more along the axis, but 0)"));
}

TEST_CASE("the mean of integers") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", i32, {4});
  x.through(mean);
  CHECK(mistakes(g) == lines(at, R"(@2: mean cannot join the graph as "mean"
  operand 0  i32[4]  "x"  @1
  requires   a floating element type, but i32
  way out    cast it: x.cast(mt::f32))"));
}

TEST_CASE("a reshape to another number of elements") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  x.reshape({5, 2});
  x.reshape({5, -1});
  x.reshape({-1, -1});
  x.reshape({-2, 6});
  CHECK(mistakes(g) == lines(at, R"(@2: reshape cannot join the graph as "reshape"
  operand 0  f32[4, 3]  "x"  @1
  requires   12 elements, but 10
@3: reshape cannot join the graph as "reshape"
  operand 0  f32[4, 3]  "x"  @1
  requires   a multiple of 5 elements, but 12
@4: reshape cannot join the graph as "reshape"
  operand 0  f32[4, 3]  "x"  @1
  requires   at most one size of -1, but 2
@5: reshape cannot join the graph as "reshape"
  operand 0  f32[4, 3]  "x"  @1
  requires   sizes of 0 or more, or -1, but -2)"));
}

TEST_CASE("a transposition of axes that are not there") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  x.transpose(0, 2);
  permute(x, {0, 0});
  permute(x, {1});
  CHECK(mistakes(g) == lines(at, R"(@2: transpose cannot join the graph as "transpose"
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but 2
@3: transpose cannot join the graph as "transpose"
  operand 0  f32[4, 3]  "x"  @1
  requires   each axis once, but 0 twice
@4: transpose cannot join the graph as "transpose"
  operand 0  f32[4, 3]  "x"  @1
  requires   one axis for each of 2 dimensions, but 1)"));
}

TEST_CASE("a slice beyond the end") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 8});
  x.slice(1, 3, 12);
  x.slice(-1, -2, -5);
  x.slice(2, 0, 1);
  CHECK(mistakes(g) == lines(at, R"(@2: slice cannot join the graph as "slice"
  operand 0  f32[4, 8]  "x"  @1
  requires   0 <= begin <= end <= 8, but begin 3 and end 12
@3: slice cannot join the graph as "slice"
  operand 0  f32[4, 8]  "x"  @1
  requires   0 <= begin <= end <= 8, but begin 6 and end 3
@4: slice cannot join the graph as "slice"
  operand 0  f32[4, 8]  "x"  @1
  requires   an axis from -2 to 1, but 2)"));
}

TEST_CASE("an expansion to a shape that does not fit") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  expand(x, {4, 5});
  CHECK(mistakes(g) == lines(at, R"(@2: expand cannot join the graph as "expand"
  operand 0  f32[4, 3]  "x"  @1
  requires   a shape that [4, 3] broadcasts to, but [4, 5])"));
}

TEST_CASE("a concatenation of what does not fit") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto y = g.input("y", f32, {5, 3});
  concat({x, y}, 1);
  concat({x, y.reshape({15})}, 0);
  stack({x, x}, 3);
  stack({x, x.reshape({1, 4, 3})}, 0);
  CHECK(mistakes(g) == lines(at, R"(@3: concat cannot join the graph as "concat"
  operand 0  f32[4, 3]  "x"  @1
  operand 1  f32[5, 3]  "y"  @2
  requires   equal sizes of dimension 0, but 4 and 5
@4: concat cannot join the graph as "concat"
  operand 0  f32[4, 3]  "x"        @1
  operand 1  f32[15]    "reshape"  @4
  requires   equally many dimensions, but 2 and 1
@5: concat cannot join the graph as "concat"
  operand 0  f32[1, 4, 3]  "reshape_1"  @5
  operand 1  f32[1, 4, 3]  "reshape_2"  @5
  requires   an axis from -3 to 2, but 3
@6: stack cannot join the values
  operand 0  f32[4, 3]     "x"          @1
  operand 1  f32[1, 4, 3]  "reshape_3"  @6
  requires   values of one shape, but [4, 3] and [1, 4, 3])"));
}

TEST_CASE("branches that do not join") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto head = [](Value v) { return v.slice(1, 0, 2); };
  x.split(head, relu).merge(sum);
  CHECK(mistakes(g) == lines(at, R"(@3: add cannot join the graph as "add"
  operand 0  f32[4, 2]  "split/0/slice"  @2
  operand 1  f32[4, 3]  "split/1/relu"   @3
  requires   equal last dimensions, or one of them 1, but 2 and 3)"));
}

TEST_CASE("a look-up with the wrong operands") {
  Graph g("g");
  const int at = __LINE__;
  const auto table = g.input("table", f32, {10, 4});
  const auto index = g.input("index", i64, {6});
  embedding_lookup(index, index);
  embedding_lookup(table, table);
  CHECK(mistakes(g) == lines(at, R"(@3: embedding cannot join the graph as "embedding"
  operand 0  i64[6]  "index"  @2
  operand 1  i64[6]  "index"  @2
  requires   a table [rows, width], but i64[6]
@4: embedding cannot join the graph as "embedding"
  operand 0  f32[10, 4]  "table"  @1
  operand 1  f32[10, 4]  "table"  @1
  requires   an index of i32 or i64, but f32
  way out    cast it: index.cast(mt::i64))"));
}

TEST_CASE("a pick with an index of another shape") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto index = g.input("index", i64, {5});
  pick(x, index);
  CHECK(mistakes(g) == lines(at, R"(@3: pick cannot join the graph as "pick"
  operand 0  f32[4, 3]  "x"      @1
  operand 1  i64[5]     "index"  @2
  requires   an index of shape [4], but [5])"));
}

TEST_CASE("one mistake is told once: poisoned values are silent") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto bad = x + x.reshape({12});
  sum(concat({gelu(bad) * 2.0 + x, bad}, 0).transpose(0, 1).slice(0, 7, 9)).cast(i64);
  CHECK(mistakes(g) == lines(at, R"(@2: add cannot join the graph as "add"
  operand 0  f32[4, 3]  "x"        @1
  operand 1  f32[12]    "reshape"  @2
  requires   equal last dimensions, or one of them 1, but 3 and 12)"));
}

TEST_CASE("parts that are not equal, or none") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  CHECK(chunk(x, 2, 1).size() == 2);
  chunk(x, 0, 0);
  chunk(x, 2, 2);
  CHECK(mistakes(g) == lines(at, R"(@2: chunk cannot join the graph as "chunk"
  operand 0  f32[4, 3]  "x"  @1
  requires   a size of dimension 1 that 2 divides, but [4, 3]
@3: chunk cannot join the graph as "chunk"
  operand 0  f32[4, 3]  "x"  @1
  requires   1 part or more, but 0
@4: chunk cannot join the graph as "chunk"
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but 2)"));
}

TEST_CASE("no value at all") {
  const int at = __LINE__;
  const std::string text = error_of<GraphError>([] { concat({}, 0); });
  CHECK(text == lines(at, R"(@1: concat has no operand that belongs to a graph
  way out    begin with Graph::input or Graph::parameter)"));
}

TEST_CASE("what is written is what is built") {
  Graph g("g");
  const auto x = g.input("x", f32, {4, 3});
  const auto table = g.parameter("table", {f32, {10, 3}}, {});
  const auto index = g.input("index", i64, {4});

  CHECK((2.0 * x - 1.0).type() == Type{f32, {4, 3}});
  CHECK((x > 0.0).type() == Type{bool_, {4, 3}});
  CHECK((x + x.reshape({4, 1, 3})).type() == Type{f32, {4, 4, 3}});
  CHECK(sum(x).type() == Type{f32, {}});
  CHECK(mean(x, 0).type() == Type{f32, {3}});
  CHECK(max(x, {-1}, true).type() == Type{f32, {4, 1}});
  CHECK(sum(x, {0, 1}).type() == Type{f32, {}});
  CHECK(x.through(mean).type() == Type{f32, {}});
  CHECK(argmax(x).type() == Type{i64, {4}});
  CHECK(x.reshape({2, -1}).type() == Type{f32, {2, 6}});
  CHECK(x.transpose(0, -1).type() == Type{f32, {3, 4}});
  CHECK(x.slice(-1, -2, 3).type() == Type{f32, {4, 2}});
  CHECK(expand(x, {5, 4, 3}).type() == Type{f32, {5, 4, 3}});
  CHECK(concat({x, x}, -1).type() == Type{f32, {4, 6}});
  CHECK(chunk(x, 2, 0)[1].type() == Type{f32, {2, 3}});
  CHECK(chunk(x, 3, -1)[2].type() == Type{f32, {4, 1}});
  CHECK(stack({x, x, x}, -1).type() == Type{f32, {4, 3, 3}});
  CHECK(x.split(relu, tanh, gelu).merge(concat(1)).type() == Type{f32, {4, 9}});
  CHECK(x.split(relu, tanh).merge(mean).type() == Type{f32, {4, 3}});
  CHECK(x.split(relu, tanh).merge(product).type() == Type{f32, {4, 3}});
  CHECK(embedding_lookup(table, index).type() == Type{f32, {4, 3}});
  CHECK(pick(x, index).type() == Type{f32, {4}});
  CHECK(where(x > 0.0, x, 0.0).type() == Type{f32, {4, 3}});
  CHECK(pow(x, 2.0).type() == Type{f32, {4, 3}});
  CHECK(mistakes(g) == "nothing");
}

}  // namespace
}  // namespace metronome::functions_test
