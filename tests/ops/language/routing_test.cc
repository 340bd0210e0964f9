// Errors for users who misuse `route` and what goes with it: whole texts. "@1" stands for the first
// line after the one that made `at`.
#include <fmt/format.h>

#include <limits>
#include <string>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/layers.h"
#include "ops/language/routing.h"
#include "tests/doctest.h"
#include "tests/ops/declared.h"

namespace metronome::routing_test {
namespace {

using tests::lines;
using tests::mistakes;

Layer given(Value weights) {
  return [weights](Value) { return weights; };
}

const Layer same = [](Value h) { return h; };
const auto as_many = [](int) { return same; };

TEST_CASE("what is routed are rows") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8});
  const auto y = x.route(given(x), as_many);
  CHECK(y.poisoned());
  CHECK(mistakes(g) == lines(at, R"(@2: route cannot share out rows
  operand 0  f32[8]  "x"  @1
  requires   rows [..., width], but f32[8])"));
}

TEST_CASE("a router that gives no weight per row and expert") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto few = g.input("few", f32, {7, 2});
  const auto flat = g.input("flat", f32, {8});
  const auto none = g.input("none", f32, {8, 0});
  const auto integers = g.input("integers", i64, {8, 2});
  for (const auto& w : {few, flat, none, integers}) x.route(given(w), as_many);
  CHECK(mistakes(g) == lines(at, R"(@6: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"    @1
  operand 1  f32[7, 2]  "few"  @2
  requires   one floating weight per row and expert: a router from f32[8, 4] to [8, experts], but it gives f32[7, 2]
@6: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"     @1
  operand 1  f32[8]     "flat"  @3
  requires   one floating weight per row and expert: a router from f32[8, 4] to [8, experts], but it gives f32[8]
@6: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"     @1
  operand 1  f32[8, 0]  "none"  @4
  requires   one floating weight per row and expert: a router from f32[8, 4] to [8, experts], but it gives f32[8, 0]
@6: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"         @1
  operand 1  i64[8, 2]  "integers"  @5
  requires   one floating weight per row and expert: a router from f32[8, 4] to [8, experts], but it gives i64[8, 2])"));
}

TEST_CASE("another number of experts than the router has columns") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto w = g.input("w", f32, {8, 3});
  x.route(given(w), {same, same});
  CHECK(mistakes(g) == lines(at, R"(@3: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"  @1
  operand 1  f32[8, 3]  "w"  @2
  requires   as many experts as the router has columns, but 2 and 3)"));
}

TEST_CASE("a top out of range") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto w = g.input("w", f32, {8, 3});
  x.route(given(w), as_many, {.top = 0});
  x.route(given(w), as_many, {.top = 4});
  CHECK(mistakes(g) == lines(at, R"(@3: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"  @1
  operand 1  f32[8, 3]  "w"  @2
  requires   a top from 1 to the router's 3 columns, but 0
@4: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"  @1
  operand 1  f32[8, 3]  "w"  @2
  requires   a top from 1 to the router's 3 columns, but 4)"));
}

TEST_CASE("a capacity that is not above zero") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto w = g.input("w", f32, {8, 3});
  x.route(given(w), as_many, {.capacity = 0});
  x.route(given(w), as_many, {.capacity = -0.5});
  x.route(given(w), as_many, {.capacity = std::numeric_limits<double>::quiet_NaN()});
  x.route(given(w), as_many,
          {.capacity = std::numeric_limits<double>::infinity()});  // room for all
  CHECK(mistakes(g) == lines(at, R"(@3: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"  @1
  operand 1  f32[8, 3]  "w"  @2
  requires   a capacity above 0, but 0
@4: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"  @1
  operand 1  f32[8, 3]  "w"  @2
  requires   a capacity above 0, but -0.5
@5: route cannot weigh its experts
  operand 0  f32[8, 4]  "x"  @1
  operand 1  f32[8, 3]  "w"  @2
  requires   a capacity above 0, but nan)"));
}

TEST_CASE("experts that do not fit together") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto w = g.input("w", f32, {8, 2});
  const Layer half = [](Value h) { return h.slice(0, 0, 1); };
  const Layer narrow = [](Value h) { return h.slice(1, 0, 3); };
  const Layer whole = [](Value h) { return h.cast(i64); };
  x.route(given(w), {same, half});
  x.route(given(w), {same, narrow});
  x.route(given(w), {whole, whole});
  CHECK(mistakes(g) == lines(at, R"(@6: route cannot join its experts
  operand 0  f32[5, 4]  "route/chunk"    @6
  operand 1  f32[1, 4]  "route/1/slice"  @3
  requires   experts that keep the number of rows, but expert 1 gives f32[1, 4] for 5 rows
@7: route cannot join its experts
  operand 0  f32[5, 4]  "route_1/chunk"    @7
  operand 1  f32[5, 3]  "route_1/1/slice"  @4
  requires   experts of one type, but expert 0 gives f32[5, 4] and expert 1 f32[5, 3]
@8: route cannot join its experts
  operand 0  f32[8, 2]  "w"               @2
  operand 1  i64[5, 4]  "route_2/0/cast"  @5
  requires   experts that give the element type of the router's weights, f32, but expert 0 gives i64[5, 4]
  way out    cast operand 1 to f32: x.cast(mt::f32))"));
}

TEST_CASE("only what route gave has dropped rows and a balance loss") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto w = g.input("w", f32, {8, 2});
  const auto y = x.route(given(w), as_many);
  dropped(y + 1.0);
  balance_loss(x);
  dropped(y), balance_loss(y);
  CHECK(mistakes(g) == lines(at, R"(@4: dropped rows cannot be counted
  operand 0  f32[8, 4]  "add"  @4
  requires   what route(...) gave
@5: balance_loss cannot find the router
  operand 0  f32[8, 4]  "x"  @1
  requires   what route(...) gave)"));
}

TEST_CASE("experts that choose have nothing to balance") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto w = g.input("w", f32, {8, 2});
  const auto y = x.route(given(w), as_many, {.chooser = Chooser::expert});
  balance_loss(y);
  dropped(y);
  CHECK(mistakes(g) == lines(at, R"(@4: balance_loss has nothing to balance
  operand 0  f32[8, 4]  "route/reshape_4"  @3
  requires   a route in which rows choose; where experts choose, all take as many rows)"));
}

TEST_CASE("one mistake is told once") {
  Graph g("g");
  const int at = __LINE__;
  const auto x = g.input("x", f32, {8, 4});
  const auto y = x.route([](Value h) { return h.reshape({5}); }, as_many);
  dropped(y), balance_loss(y), y.route(given(x), as_many);
  CHECK(mistakes(g).starts_with(lines(at, "@2: reshape cannot join the graph")));
  CHECK(mistakes(g).find("route cannot") == std::string::npos);
}

TEST_CASE("experts' weights lie under route/<index>, the router's under route/router") {
  Graph g("g");
  const auto x = g.input("x", f32, {8, 4});
  const auto router = [](Value h) { return h.through(linear(2)); };
  x.route(router, {linear(4), linear(4)});
  std::string paths;
  for (const Storage& storage : g.data().storages()) {
    if (storage.kind == StorageKind::parameter) paths += storage.path + "\n";
  }
  CHECK(paths ==
        "route/router/linear/weight\nroute/router/linear/bias\n"
        "route/0/linear/weight\nroute/0/linear/bias\n"
        "route/1/linear/weight\nroute/1/linear/bias\n");
}

}  // namespace
}  // namespace metronome::routing_test
