// Nodes that wait for others which they do not read: as text, refused, in orders.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "graph/check/verify.h"
#include "graph/ir/error.h"
#include "tests/graph/planned.h"
#include "tests/graph/waiting.h"

namespace metronome::testing::waits_test {
namespace {

std::string own_mistake(const std::string& what) {
  return "Metronome made a mistake of its own, please report it: " + what;
}

TEST_CASE("a graph shows what a node waits for") {
  Three t;
  waiting(t.g, "last", Scale{5}, {t.x}, {t.early, t.late});
  CHECK(t.g.print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = scale(%0) {factor=3} : f32[4]  \"early\"\n"
        "  %2 = any(%0) after %1 : f32[4]  \"any\"\n"
        "  %3 = scale(%0) {factor=4} after %2 : f32[4]  \"late\"\n"
        "  %4 = scale(%0) {factor=5} after %1, %3 : f32[4]  \"last\"\n"
        "  \"y0\" is %1\n"
        "  \"y1\" is %2\n"
        "  \"y2\" is %3\n");
  CHECK(t.g.dot().find("n3 -> n4 [style=dashed, color=gray];") != std::string::npos);
}

TEST_CASE("a node waits for earlier nodes, in their order, and only where it has a kernel") {
  Three t;
  Node itself{make_op(Scale{2}), {t.x.id()}, {}, "itself", Line{}, {}, {4}};
  CHECK_THROWS_WITH_AS(t.g.emitter().graph.append(itself),
                       own_mistake("\"itself\" waits for a node that does not exist yet").c_str(),
                       InternalError);
  const auto verified = [](Graph& g) { check::verify(g, "broken"); };
  Three twice;
  waiting(twice.g, "twice", Scale{2}, {twice.x}, {twice.any, twice.any});
  CHECK_THROWS_WITH_AS(
      verified(twice.g),
      own_mistake("after pass broken: \"twice\" waits for nodes that do not ascend").c_str(),
      InternalError);
  Three still;
  waiting(still.g, "still", Head{0, 2}, {still.x}, {still.any});
  CHECK_THROWS_WITH_AS(verified(still.g),
                       own_mistake("after pass broken: \"still\" waits, but has no kernel").c_str(),
                       InternalError);
}

// x - big0 - small0 - y      a node that waits keeps both big values alive
//   - big1 - small1 -/
Graph fan(bool waits) {
  Graph g("fan");
  const Value x = g.input("x", f32, {16});
  const Value big0 = node(g, "big0", Blend{floats(1600)}, {x});
  const Value big1 = node(g, "big1", Blend{floats(1600)}, {x});
  const Value view = node(g, "view", Head{0, 16}, {big1});
  const Value small0 =
      waiting(g, "small0", Blend{floats(16)}, {big0}, waits ? Values{x, view} : Values{});
  const Value small1 = node(g, "small1", Blend{floats(16)}, {view});
  g.output("y", node(g, "y", Plus{}, {small0, small1}));
  return g;
}

TEST_CASE("all orders keep a wait, one for a view by what makes its bytes") {
  CHECK(plan::schedule(fan(false), {}).peak_bytes == 6400 + 2 * 64);
  const Graph g = fan(true);
  for (const plan::Schedule& schedule : plan::schedules(g, {})) {
    const auto place = [&](std::int32_t node) { return std::ranges::find(schedule.order, node); };
    CHECK(place(2) < place(4));
    CHECK(schedule.peak_bytes >= 2 * 6400);
  }
}

TEST_CASE("the checker refuses an order in which a node runs before what it waits for") {
  Planned p(fan(true));
  p.order.order = {0, 1, 4, 2, 3, 5, 6};
  CHECK(p.check() == "\"small0\" runs at step 2, before \"big1\" at step 3, for which it waits");
}

}  // namespace
}  // namespace metronome::testing::waits_test
