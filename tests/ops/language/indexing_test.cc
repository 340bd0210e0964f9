// Errors for users who misuse the functions of ops/language/indexing.h: whole texts. "@1" stands
// for the first line after the one that made `at`.
#include <fmt/format.h>

#include <string>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/indexing.h"
#include "tests/doctest.h"
#include "tests/ops/declared.h"

namespace metronome::indexing_test {
namespace {

using tests::lines;
using tests::mistakes;

TEST_CASE("an index that does not fit the operand") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto flat = g.input("flat", i64, {4});
  const auto wide = g.input("wide", i32, {9, 5});
  gather(x, 0, flat);
  gather(x, 0, wide);
  gather(x, 2, wide);
  gather(x, 1, x);
  CHECK(mistakes(g) == lines(at, R"(@4: gather cannot join the graph as "gather"
  operand 0  f32[4, 3]  "x"     @1
  operand 1  i64[4]     "flat"  @2
  requires   an index of 2 dimensions as the operand has, but [4]
@5: gather cannot join the graph as "gather"
  operand 0  f32[4, 3]  "x"     @1
  operand 1  i32[9, 5]  "wide"  @3
  requires   an index that along every axis but 0 is at most as large as [4, 3], but [9, 5]
@6: gather cannot join the graph as "gather"
  operand 0  f32[4, 3]  "x"     @1
  operand 1  i32[9, 5]  "wide"  @3
  requires   an axis from -2 to 1, but 2
@7: gather cannot join the graph as "gather"
  operand 0  f32[4, 3]  "x"  @1
  operand 1  f32[4, 3]  "x"  @1
  requires   an index of i32 or i64, but f32
  way out    cast it: index.cast(mt::i64))"));
}

TEST_CASE("a source that is not as the index, a sum of truths") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto index = g.input("index", i64, {2, 3});
  const auto truths = g.input("truths", bool_, {4, 3});
  scatter_add(x, 0, index, x);
  scatter_add(x, 0, index, index);
  scatter_add(truths, 0, index, index);
  CHECK(mistakes(g) == lines(at, R"(@4: scatter_add cannot join the graph as "scatter_add"
  operand 0  f32[4, 3]  "x"      @1
  operand 1  i64[2, 3]  "index"  @2
  operand 2  f32[4, 3]  "x"      @1
  requires   a source f32[2, 3], but f32[4, 3]
@5: scatter_add cannot join the graph as "scatter_add"
  operand 0  f32[4, 3]  "x"      @1
  operand 1  i64[2, 3]  "index"  @2
  operand 2  i64[2, 3]  "index"  @2
  requires   a source f32[2, 3], but i64[2, 3]
@6: scatter_add cannot join the graph as "scatter_add"
  operand 0  bool[4, 3]  "truths"  @3
  operand 1  i64[2, 3]   "index"   @2
  operand 2  i64[2, 3]   "index"   @2
  requires   a number element type, but bool
  way out    cast it: x.cast(mt::f32))"));
}

TEST_CASE("what cannot be sorted or summed up") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto truths = g.input("truths", bool_, {4});
  sort(truths);
  topk(x, 4, 1);
  topk(x, -1, 0);
  argsort(x, -3);
  cumsum(x, 2);
  cumsum(truths, 0);
  CHECK(mistakes(g) == lines(at, R"(@3: sort cannot join the graph as "sort"
  operand 0  bool[4]  "truths"  @2
  requires   a number element type, but bool
  way out    cast it: x.cast(mt::f32)
@4: topk cannot join the graph as "topk"
  operand 0  f32[4, 3]  "x"  @1
  requires   a k from 0 to the 3 elements along axis 1, but 4
@5: topk cannot join the graph as "topk"
  operand 0  f32[4, 3]  "x"  @1
  requires   a k from 0 to the 4 elements along axis 0, but -1
@6: sort cannot join the graph as "sort"
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but -3
@7: cumsum cannot join the graph as "cumsum"
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but 2
@8: cumsum cannot join the graph as "cumsum"
  operand 0  bool[4]  "truths"  @2
  requires   a number element type, but bool
  way out    cast it: x.cast(mt::f32))"));
}

TEST_CASE("slices that cannot be chosen, axes that are not there") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto index = g.input("index", i64, {2, 3});
  index_select(x, 0, index);
  index_select(x, 0, x.slice(0, 0, 1).reshape({3}));
  index_select(x, 2, index.reshape({6}));
  flip(x, {0, 2});
  roll(x, 1, -3);
  CHECK(mistakes(g) == lines(at, R"(@3: index_select cannot choose slices
  operand 0  f32[4, 3]  "x"      @1
  operand 1  i64[2, 3]  "index"  @2
  requires   an index i64[n] or i32[n], but i64[2, 3]
@4: index_select cannot choose slices
  operand 0  f32[4, 3]  "x"        @1
  operand 1  f32[3]     "reshape"  @4
  requires   an index i64[n] or i32[n], but f32[3]
@5: index_select cannot choose slices
  operand 0  f32[4, 3]  "x"          @1
  operand 1  i64[6]     "reshape_1"  @5
  requires   an axis from -2 to 1, but 2
@6: flip cannot reverse an axis
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but 2
@7: roll cannot move along an axis
  operand 0  f32[4, 3]  "x"  @1
  requires   an axis from -2 to 1, but -3)"));
}

TEST_CASE("a mask that does not fit, a value that is no scalar") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto tall = g.input("tall", bool_, {2, 4, 3});
  const auto half = g.input("half", bool_, {2, 3});
  const auto mask = g.input("mask", bool_, {4, 1});
  masked_fill(x, x, 0.0);
  masked_fill(x, tall, 0.0);
  masked_fill(x, half, 0.0);
  masked_fill(x, mask, x);
  CHECK(mistakes(g) == lines(at, R"(@5: masked_fill cannot fill
  operand 0  f32[4, 3]  "x"  @1
  operand 1  f32[4, 3]  "x"  @1
  requires   a mask of bool, but f32[4, 3]
@6: masked_fill cannot fill
  operand 0  f32[4, 3]      "x"     @1
  operand 1  bool[2, 4, 3]  "tall"  @2
  requires   a mask that broadcasts to [4, 3], but [2, 4, 3]
@7: masked_fill cannot fill
  operand 0  f32[4, 3]   "x"     @1
  operand 1  bool[2, 3]  "half"  @3
  requires   a mask that broadcasts to [4, 3], but [2, 3]
@8: masked_fill cannot fill
  operand 0  f32[4, 3]   "x"     @1
  operand 1  bool[4, 1]  "mask"  @4
  requires   a number or a scalar, but f32[4, 3])"));
}

TEST_CASE("one mistake is told once") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {4, 3});
  const auto bad = x.reshape({5});
  const auto index = g.input("index", i64, {4, 3});
  scatter_add(cumsum(flip(roll(bad, 1, 0), {0}), 0), 0, index, gather(bad, 0, index));
  masked_fill(index_select(bad, 0, index), bad > 0.0, 1.0);
  topk(sort(bad).values, 9), argmin(bad), argsort(bad);
  CHECK(mistakes(g).starts_with(lines(at, "@2: reshape cannot join the graph")));
  CHECK(mistakes(g).find('\n' + std::string(__FILE__)) == std::string::npos);
}

}  // namespace
}  // namespace metronome::indexing_test
