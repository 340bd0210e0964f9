#include "graph/plan/memory_plan.h"
#include "graph/plan/planner.h"
#include "graph/plan/print_plan.h"
#include "graph/plan/schedules.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/graph/check_bound.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::memory_plan_test {
namespace {

Settings aligned(std::size_t alignment) {
  Settings settings;
  settings.alignment = alignment;
  return settings;
}
const Settings kSettings = aligned(64);

/// The plan of the best schedule as text, which passes its check.
std::string planned(const ir::Graph& graph, const std::vector<std::size_t>& scratch = {},
                    const Settings& settings = kSettings) {
  const plan::Schedule order = plan::schedule(graph, settings);
  const plan::MemoryPlan plan = plan::plan_memory(graph, order, scratch, settings);
  CHECK(testing::check_plan(graph, order, scratch, plan, settings).value_or("no fault") ==
        "no fault");
  return plan::print(graph, order, scratch, plan);
}

TEST_CASE("a value's bytes are free after its last reader") {
  // x - a - b - c - y       b cannot lie where a, which it reads, lies; c can
  Graph g("chain");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Blend{floats(16)}, {x});
  const Value b = node(g, "b", Blend{floats(16)}, {a});
  const Value c = node(g, "c", Blend{floats(16)}, {b});
  g.output("y", node(g, "y", Blend{floats(16)}, {c}));
  CHECK(planned(g) ==
        "arena 128 bytes, at least 128\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  arena [0, 64)\n"
        "  2  b  arena [64, 128)\n"
        "  3  c  arena [0, 64)\n"
        "  4  y  readable y [0, 64)\n");
}

TEST_CASE("an output takes over the bytes of an input that dies with it, where its op may") {
  // x - a - b - c - y
  //       \---------/       a is read after b: b needs bytes of its own, c takes over b's
  Graph g("in_place");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Scale{2}, {x});
  const Value b = node(g, "b", Scale{2}, {a});
  const Value c = node(g, "c", Scale{2}, {b});
  g.output("y", node(g, "y", Blend{floats(16)}, {c, a}));
  CHECK(planned(g) ==
        "arena 128 bytes, at least 128\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  arena [0, 64)\n"
        "  2  b  arena [64, 128)\n"
        "  3  c  arena [64, 128)\n"
        "  4  y  readable y [0, 64)\n");
}

TEST_CASE("a view costs nothing and lengthens the life of what it views") {
  // x - a - tail - tip ----- y
  //       \ b -------------/       a lives until y, though only views of it are read there
  Graph g("views");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Scale{2}, {x});
  const Value tail = node(g, "tail", Head{8, 8}, {a});
  const Value tip = node(g, "tip", Head{4, 2}, {tail});
  const Value b = node(g, "b", Scale{2}, {a});
  g.output("y", node(g, "y", Blend{floats(16)}, {tip, b}));
  CHECK(planned(g) ==
        "arena 128 bytes, at least 128\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  arena [0, 64)\n"
        "  2  tail  arena [32, 64)\n"
        "  3  tip  arena [48, 56)\n"
        "  4  b  arena [64, 128)\n"
        "  5  y  readable y [0, 64)\n");
}

TEST_CASE("an operand is made inside the result that it is a part of") {
  // x - a ---\           s holds a, b at its first and its last rows; the input in the middle is
  //   \- b -- s - y      copied; a is read again after s
  Graph g("inside");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Blend{floats(16)}, {x});
  const Value b = node(g, "b", Blend{floats(32)}, {a});
  const Value s = node(g, "s", Stack{}, {a, x, b});
  const Value t = node(g, "t", Blend{floats(16)}, {s});
  g.output("y", node(g, "y", Blend{floats(16)}, {t, a}));
  CHECK(planned(g) ==
        "arena 320 bytes, at least 320\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  arena [0, 64)\n"
        "  2  b  arena [128, 256)\n"
        "  3  s  arena [0, 256)\n"
        "  4  t  arena [256, 320)\n"
        "  5  y  readable y [0, 64)\n");
}

TEST_CASE("a result inside another is held as part of the outermost, which may be readable") {
  Graph g("nested");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Blend{floats(16)}, {x});
  const Value b = node(g, "b", Blend{floats(16)}, {x});
  const Value inner = node(g, "inner", Stack{}, {a, head(b, 0, 16)});
  const Value c = node(g, "c", Blend{floats(16)}, {inner});
  g.output("y", node(g, "y", Stack{}, {c, inner}));
  CHECK(planned(g) ==
        "arena 0 bytes, at least 0\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  readable y [64, 128)\n"
        "  2  b  readable y [128, 192)\n"
        "  3  head  readable y [128, 192)\n"
        "  4  inner  readable y [64, 192)\n"
        "  5  c  readable y [0, 64)\n"
        "  6  y  readable y [0, 192)\n");
}

TEST_CASE("an operand that may not lie inside is copied") {
  // At an odd offset, part of a larger value, read by users, assigned, under another guard, twice.
  Graph g("copied");
  const Value x = g.input("x", f32, {16});
  const Value go = node(g, "go", Blend{Type{bool_, {}}}, {x});
  const Value few = node(g, "few", Blend{floats(7)}, {x});
  const Value odd = node(g, "odd", Blend{floats(16)}, {x});
  const Value large = node(g, "large", Blend{floats(32)}, {x});
  const Value half = head(large, 0, 16);
  const Value seen = node(g, "seen", Blend{floats(16)}, {x});
  g.output("seen", seen);
  const Value twice = node(g, "twice", Blend{floats(16)}, {x});
  const Value s = node(g, "s", Stack{}, {half, seen, twice, twice, few, odd});
  const Value guarded = node_under(g, go, "guarded", Stack{}, {odd, s});
  g.output("y", node_under(g, go, "y", Blend{floats(16)}, {guarded}));
  const plan::Schedule order = plan::schedule(g, kSettings);
  const plan::MemoryPlan plan = plan::plan_memory(g, order, {}, kSettings);
  CHECK(testing::check_plan(g, order, {}, plan, kSettings).value_or("no fault") == "no fault");
  const auto place = [&](Value value) { return plan.places[value.id().node][value.id().output]; };
  const auto inside = [&](Value part, Value whole) {
    return place(part).in == place(whole).in && place(part).index == place(whole).index &&
           place(part).offset >= place(whole).offset &&
           place(part).offset < place(whole).offset + whole.type().bytes();
  };
  CHECK(inside(twice, s));
  CHECK(inside(few, s));
  for (const Value& value : {half, seen, odd}) CHECK(!inside(value, s));
  CHECK(!inside(s, guarded));
  CHECK(!inside(odd, guarded));
}

TEST_CASE("a saved output has a place only where something reads it, others always") {
  Graph g("saved");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Norm{}, {x});
  const Value b = node(g, "b", Norm{}, {a});
  node(g, "unread", Blend{floats(16)}, {b});
  g.output("y", node(g, "y", Blend{floats(16)}, {b, output(g, b, 1)}));
  CHECK(planned(g) ==
        "arena 128 bytes, at least 128\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  arena [0, 64), nowhere\n"
        "  2  b  arena [0, 64), arena [64, 68)\n"
        "  3  y  readable y [0, 64)\n"
        "  4  unread  arena [64, 128)\n");
}

TEST_CASE("readable values lie beside the arena; names and views of one value share its block") {
  Graph g("readable");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Scale{2}, {x});
  const Value tail = node(g, "tail", Head{8, 8}, {a});
  const Value b = node(g, "b", Scale{2}, {a});
  g.output("first", a);
  g.output("second", b);
  g.output("third", tail);
  g.output("fourth", a);
  CHECK(planned(g) ==
        "arena 0 bytes, at least 0\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  readable first [0, 64)\n"
        "  2  tail  readable first [32, 64)\n"
        "  3  b  readable second [0, 64)\n");
  const plan::MemoryPlan plan = plan::plan_memory(g, plan::schedule(g, kSettings), {}, kSettings);
  CHECK(plan.readable_bytes == std::vector<std::size_t>{64, 64, 0, 0});
}

TEST_CASE("an assigned value lies in its storage, or to the end of the step in the arena") {
  // w - next_w             over the storage's bytes
  // v - next_v - z         next_v is read with the old v: not in place
  //   \---------/
  Graph g("assigned");
  const Value w = g.parameter("w", floats(16), {});
  const Value v = g.parameter("v", floats(16), {});
  const Value next_w = node(g, "next_w", Scale{2}, {w});
  const Value next_v = node(g, "next_v", Scale{2}, {v});
  const Value z = node(g, "z", Plus{}, {next_v, v});
  g.output("y", node(g, "y", Scale{2}, {z}));
  assign_all(g, {{w, next_w}, {v, next_v}});
  CHECK(planned(g) ==
        "arena 128 bytes, at least 128\n"
        "  0  w  storage w [0, 64)\n"
        "  1  v  storage v [0, 64)\n"
        "  2  next_w  storage w [0, 64)\n"
        "  3  next_v  arena [0, 64)\n"
        "  4  z  arena [64, 128)\n"
        "  5  y  readable y [0, 64)\n"
        "  w := next_w, in place\n"
        "  v := next_v\n");
}

TEST_CASE("a value that is readable and assigned lies in its block and is copied") {
  Graph g("both");
  const Value w = g.parameter("w", floats(16), {});
  const Value next = node(g, "next", Scale{2}, {w});
  g.output("y", next);
  assign_all(g, {{w, next}});
  CHECK(planned(g) ==
        "arena 0 bytes, at least 0\n"
        "  0  w  storage w [0, 64)\n"
        "  1  next  readable y [0, 64)\n"
        "  w := next\n");
}

TEST_CASE("scratch is held for the one step of its node, beside what the node reads and writes") {
  Graph g("scratch");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Blend{floats(16)}, {x});
  const Value b = node(g, "b", Blend{floats(16)}, {a});
  g.output("y", node(g, "y", Blend{floats(16)}, {b}));
  const std::vector<std::size_t> scratch = {0, 0, 100, 256};
  CHECK(planned(g, scratch) ==
        "arena 320 bytes, at least 320\n"
        "  0  x  input x [0, 64)\n"
        "  1  a  arena [128, 192)\n"
        "  2  b  arena [256, 320), scratch arena [0, 100)\n"
        "  3  y  readable y [0, 64), scratch arena [0, 256)\n");
}

TEST_CASE("offsets are multiples of the alignment; a value without bytes takes none") {
  Graph g("odd");
  const Value x = g.input("x", f32, {3});
  const Value a = node(g, "a", Blend{floats(3)}, {x});
  const Value none = node(g, "none", Blend{floats(0)}, {a});
  const Value b = node(g, "b", Blend{floats(5)}, {none, a});
  g.output("y", node(g, "y", Blend{floats(3)}, {a, b}));
  CHECK(planned(g, {}, aligned(256)) ==
        "arena 512 bytes, at least 512\n"
        "  0  x  input x [0, 12)\n"
        "  1  a  arena [0, 12)\n"
        "  2  none  arena [0, 0)\n"
        "  3  b  arena [256, 276)\n"
        "  4  y  readable y [0, 12)\n");
}

TEST_CASE("an empty graph needs nothing") {
  CHECK(planned(Graph("empty")) == "arena 0 bytes, at least 0\n");
}

TEST_CASE("the largest values at the fullest moment are named, largest first") {
  Graph g("peak");
  const Value x = g.input("x", f32, {16});
  const Value small = node(g, "small", Blend{floats(16)}, {x});
  const Value early = node(g, "early", Blend{floats(64)}, {small});
  const Value large = node(g, "large", Blend{floats(100)}, {early, small});
  const Value scaled = node(g, "scaled", Scale{2}, {large});
  g.output("y", node(g, "y", Blend{floats(16)}, {scaled}));
  const plan::MemoryPlan plan = plan::plan_memory(g, plan::schedule(g, kSettings), {}, kSettings);
  CHECK(plan.holders ==
        std::vector<plan::Holder>{{large.id(), 400}, {early.id(), 256}, {small.id(), 64}});
}

/// As a target plans that skips nodes whose guards are false.
const Settings kSkips = [] {
  Settings settings;
  settings.skips = true;
  return settings;
}();

// x - a0 - b0 \        a0 and b0 run where `which` is 0, a1 and b1 where it is 1
//   - a1 - b1 - m - y
struct Choice {
  Graph graph{"choice"};
  Value x = graph.input("x", f32, {16});
  Value which = node(graph, "which", Blend{Type{i32, {}}}, {x});
  Value zero = guard(graph, "zero", which, 0);
  Value one = guard(graph, "one", which, 1);
  Value a0 = node_under(graph, zero, "a0", Blend{floats(64)}, {x});
  Value b0 = node_under(graph, zero, "b0", Blend{floats(32)}, {a0});
  Value a1 = node_under(graph, one, "a1", Blend{floats(48)}, {x});
  Value b1 = node_under(graph, one, "b1", Blend{floats(32)}, {a1});

  Graph merged() {
    const Value m = node(graph, "m", Merge{1, true}, {zero, b0, b1});
    graph.output("y", node(graph, "y", Blend{floats(16)}, {m}));
    return std::move(graph);
  }
};

TEST_CASE("branches of a choice share bytes; their results and what merges them are one") {
  const Graph g = Choice().merged();
  CHECK(planned(g, {}, kSkips) ==
        "arena 448 bytes, at least 448\n"
        "  0  x  input x [0, 64)\n"
        "  1  which  arena [0, 4)\n"
        "  2  zero  arena [384, 385)\n"
        "  3  one  arena [192, 193)\n"
        "  4  a1  arena [0, 192)\n"
        "  5  b1  arena [256, 384)\n"
        "  6  a0  arena [0, 256)\n"
        "  7  b0  arena [256, 384)\n"
        "  8  m  arena [256, 384)\n"
        "  9  y  readable y [0, 64)\n");
  CHECK(planned(g).starts_with("arena 576 bytes, at least 576\n"));
}

TEST_CASE("what is held in any case shares bytes with no branch, until a branch takes it over") {
  // x - z - a0 - m - y     a0 is made over z where `zero` holds; b1, which nothing reads, and c1
  //  \- b1      /           where `one` does
  //   \- c1 ---/
  Graph g("taken");
  const Value x = g.input("x", f32, {16});
  const Value which = node(g, "which", Blend{Type{bool_, {}}}, {x});
  const Value zero = guard(g, "zero", which, 0);
  const Value one = guard(g, "one", which, 1);
  const Value z = node(g, "z", Blend{floats(64)}, {x});
  node_under(g, one, "b1", Blend{floats(48)}, {x});
  const Value a0 = node_under(g, zero, "a0", Scale{2}, {z});
  const Value c1 = node_under(g, one, "c1", Blend{floats(64)}, {x});
  const Value m = node(g, "m", Merge{1, true}, {zero, a0, c1});
  g.output("y", node(g, "y", Blend{floats(16)}, {m}));
  plan::Schedule order = plan::schedule(g, kSkips);
  order.order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const plan::MemoryPlan plan = plan::plan_memory(g, order, {}, kSkips);
  CHECK(testing::check_plan(g, order, {}, plan, kSkips).value_or("no fault") == "no fault");
  // At step 5 z, b1 and both guards; from step 6 on a0 lies over z, and c1 where a0 does.
  CHECK(plan.arena_bytes == 64 + 64 + 256 + 192);
  const auto offset = [&](Value value) { return plan.places[value.id().node][0].offset; };
  CHECK(offset(a0) == offset(z));
  CHECK(offset(c1) == offset(z));
  CHECK(offset(m) == offset(z));
}

TEST_CASE("a branch does not take bytes over where others then share less") {
  // x - z - a - m - y      step  4  5  6  7  8  9
  //      \- b -/  /        z     [======]                in any case
  //  \------- c -/         a           [===== m ======]  a where `zero` holds, b where `one` does
  //                         b        [======]
  //                         c              [=========]   in any case
  // Were a made over z, b would need other bytes, and c those beside both.
  Graph g("apart");
  const Value x = g.input("x", f32, {16});
  const Value which = node(g, "which", Blend{Type{bool_, {}}}, {x});
  const Value zero = guard(g, "zero", which, 0);
  const Value one = guard(g, "one", which, 1);
  const Value z = node(g, "z", Blend{floats(64)}, {x});
  const Value b = node_under(g, one, "b", Blend{floats(64)}, {z});
  const Value a = node_under(g, zero, "a", Scale{2}, {z});
  const Value c = node(g, "c", Blend{floats(64)}, {x});
  const Value m = node(g, "m", Merge{1, true}, {zero, a, b});
  g.output("y", node(g, "y", Blend{floats(16)}, {m, c}));
  plan::Schedule order = plan::schedule(g, kSkips);
  order.order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const plan::MemoryPlan plan = plan::plan_memory(g, order, {}, kSkips);
  CHECK(testing::check_plan(g, order, {}, plan, kSkips).value_or("no fault") == "no fault");
  const auto offset = [&](Value value) { return plan.places[value.id().node][0].offset; };
  CHECK(plan.arena_bytes == 256 + 256 + 2 * 64);  // and two guards
  CHECK(plan.lower_bound == plan.arena_bytes);
  CHECK(offset(a) != offset(z));
  CHECK(offset(a) == offset(b));
  CHECK(offset(m) == offset(a));
}

TEST_CASE(
    "where another branch runs, neither its scratch nor the report counts this one's values") {
  Choice c;
  const Value zero = c.zero, one = c.one, a1 = c.a1;
  const Graph g = c.merged();
  std::vector<std::size_t> scratch(g.data().nodes().size());
  scratch[static_cast<std::size_t>(a1.id().node)] = 512;
  plan::Schedule order = plan::schedule(g, kSkips);
  order.order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};  // a1 runs after b0 and before m reads that
  const plan::MemoryPlan plan = plan::plan_memory(g, order, scratch, kSkips);
  CHECK(testing::check_plan(g, order, scratch, plan, kSkips).value_or("no fault") == "no fault");
  CHECK(plan.lower_bound == 64 + 64 + 192 + 512);
  CHECK(plan.arena_bytes == plan.lower_bound);
  CHECK(plan.holders == std::vector<plan::Holder>{{a1.id(), 192}, {zero.id(), 1}, {one.id(), 1}});
  CHECK(plan::plan_memory(g, order, scratch, kSettings).lower_bound == plan.lower_bound + 128);
}

TEST_CASE("scratch for another graph is refused") {
  Graph g("other");
  g.output("y", node(g, "y", Scale{2}, {g.input("x", f32, {16})}));
  CHECK_THROWS_WITH_AS(plan::plan_memory(g, plan::schedule(g, {}), {1}, {}),
                       "Metronome made a mistake of its own, please report it: scratch bytes of 1 "
                       "nodes for a graph of 2",
                       InternalError);
}

}  // namespace
}  // namespace metronome::testing::memory_plan_test
