// Each fault that the checker must find: a valid plan, one thing wrong in it, the whole message.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/emit/emitter.h"
#include "tests/graph/planned.h"

namespace metronome::testing::check_plan_test {
namespace {

// x - a - tail ----- y       steps x 0, a 1, tail 2, b 3, c 4, y 5
//      \ b - c -----/
struct Views {
  Graph graph{"views"};
  Value x = graph.input("x", f32, {16});
  Value a = node(graph, "a", Blend{floats(16)}, {x});
  Value tail = node(graph, "tail", Head{8, 8}, {a});
  Value b = node(graph, "b", Blend{floats(16)}, {a});
  Value c = node(graph, "c", Blend{floats(16)}, {b});
  Value y = node(graph, "y", Blend{floats(16)}, {tail, c});

  Planned planned(std::vector<std::size_t> scratch = {}) {
    graph.output("y", y);
    return Planned(std::move(graph), std::move(scratch));
  }
};

TEST_CASE("two values that hold the same bytes at the same time") {
  Views v;
  Planned p = v.planned();
  p.place(v.c) = p.place(v.a);
  CHECK(p.check() ==
        "f32[16] \"a\" (steps 1 to 5) and f32[16] \"c\" (steps 4 to 5) both hold arena bytes "
        "[0, 64)");
}

TEST_CASE("two outputs of one node") {
  Graph g("outputs");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Momentum{}, {x, x, x});
  g.output("y", node(g, "y", Plus{}, {a, output(g, a, 1)}));
  Planned p(std::move(g));
  p.place(output(p.graph, a, 1)) = p.place(a);
  CHECK(p.check() ==
        "f32[16] \"a\" output 0 (steps 1 to 2) and f32[16] \"a\" output 1 (steps 1 to 2) both hold "
        "arena bytes [0, 64)");
}

TEST_CASE("an output over an input that dies with it, without the right to be there") {
  Views v;
  Planned p = v.planned();
  p.place(v.c) = p.place(v.b);
  CHECK(
      p.check() ==
      "f32[16] \"c\" is written over f32[16] \"b\" at step 4, which reads it and has no right to");
}

TEST_CASE("an output over a part of an input, though the op may overwrite the whole") {
  Graph g("part");
  const Value x = g.input("x", f32, {64});
  const Value a = node(g, "a", Blend{floats(64)}, {x});
  const Value half = node(g, "half", Head{0, 32}, {a});
  const Value b = node(g, "b", Plus{}, {half, half});
  const Value rest = node(g, "rest", Head{32, 32}, {a});
  const Value c = node(g, "c", Plus{}, {half, rest});
  g.output("y", node(g, "y", Plus{}, {b, c}));
  Planned p(std::move(g));
  p.place(c) = p.place(half);
  CHECK(
      p.check() ==
      "f32[32] \"c\" is written over f32[64] \"a\" at step 5, which reads it and has no right to");
}

TEST_CASE("an output over the guard of its node") {
  Graph g("guard");
  const Value x = g.input("x", f32, {});
  const Value go = node(g, "go", Blend{Type{bool_, {}}}, {x});
  Node guarded{make_op(Blend{Type{bool_, {}}}), {x.id()}, {}, "a", Line{}, go.id()};
  const Value a = g.value(g.emitter().graph.append(guarded));
  g.output("y", node(g, "y", Blend{floats(1)}, {a}));
  Planned p(std::move(g));
  p.place(a) = p.place(go);
  CHECK(p.check() ==
        "bool[] \"a\" is written over bool[] \"go\" at step 2, which reads it and has no right to");
}

// x - a - s - t - y      a lies inside s, and is read after t too
//      \----------/
struct Stacked {
  Graph graph{"stacked"};
  Value x = graph.input("x", f32, {16});
  Value a = node(graph, "a", Blend{floats(16)}, {x});
  Value s = node(graph, "s", Stack{}, {x, a});
  Value t = node(graph, "t", Blend{floats(32)}, {s});
  Value y = node(graph, "y", Blend{floats(16)}, {t, a});

  Planned planned() {
    graph.output("y", y);
    return Planned(std::move(graph));
  }
};

TEST_CASE("a result over bytes of which another value, inside of them, is read later") {
  Stacked v;
  Planned p = v.planned();
  p.place(v.t) = p.place(v.s);
  CHECK(p.check() ==
        "f32[32] \"s\" (steps 2 to 3) and f32[32] \"t\" (steps 3 to 4) both hold arena bytes "
        "[0, 128)");
}

TEST_CASE("an operand inside its result, but at another's place") {
  Stacked v;
  Planned p = v.planned();
  p.place(v.a).offset = p.place(v.s).offset;
  CHECK(p.check() ==
        "f32[16] \"a\" (steps 1 to 4) and f32[32] \"s\" (steps 2 to 3) both hold arena bytes "
        "[0, 64)");
}

TEST_CASE("an operand inside a result of a node that does not copy it there") {
  Views v;
  Planned p = v.planned();
  p.place(v.b).offset = p.place(v.c).offset;
  CHECK(p.check() ==
        "f32[16] \"c\" is written over f32[16] \"b\" at step 4, which reads it and has no right "
        "to");
}

TEST_CASE("a view that lies elsewhere than what it views") {
  Views v;
  Planned p = v.planned();
  p.place(v.tail).offset = 0;
  CHECK(p.check() ==
        "f32[8] \"tail\" lies at arena byte 0, but must lie at arena byte 32, as a view of f32[16] "
        "\"a\"");
}

TEST_CASE("a value past the end of the arena") {
  Views v;
  Planned p = v.planned();
  p.plan.arena_bytes = 128;
  CHECK(p.check() == "f32[16] \"c\" lies at arena bytes [128, 192), but the arena ends at 128");
}

TEST_CASE("a value at an odd place") {
  Views v;
  Planned p = v.planned();
  p.place(v.c).offset = 96;
  CHECK(p.check() == "f32[16] \"c\" lies at arena byte 96, which is no multiple of 64");
}

TEST_CASE("a value without a place, a saved one that is read, and an input in the arena") {
  Graph g("saved");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Norm{}, {x});
  g.output("y", node(g, "y", Blend{floats(16)}, {a, output(g, a, 1)}));
  Planned p(std::move(g));
  p.place(output(p.graph, a, 1)) = {};
  CHECK(p.check() == "f32[] \"a\" output 1 lies at no place, but must lie in the arena");
  p.replan();
  p.place(a) = {};
  CHECK(p.check() == "f32[16] \"a\" output 0 lies at no place, but must lie in the arena");
  p.replan();
  p.place(x) = {plan::Place::Kind::arena, -1, 0};
  CHECK(p.check() == "f32[16] \"x\" lies at arena byte 0, but must lie at input %0 byte 0");
}

TEST_CASE("a node that runs twice, and one that runs before what it reads") {
  Views v;
  Planned p = v.planned();
  p.order.order = {0, 1, 2, 3, 3, 5};
  CHECK(p.check() == "\"b\" runs at step 3 and again at step 4");
  p.order.order = {0, 1, 2, 4, 3, 5};
  CHECK(p.check() == "\"c\" runs at step 3, but f32[16] \"b\", which it reads, is made at step 4");
  p.order.order = {0, 1, 2, 3, 4, 6};
  CHECK(p.check() == "step 5 runs no node: 6");
  p.order.order = {0, 1, 2};
  CHECK(p.check() == "nodes in the order: 3, but must be 6");
}

TEST_CASE("nodes with effects out of their order") {
  Graph g("sends");
  const Value x = g.input("x", f32, {16});
  node(g, "first", Send{}, {x});
  node(g, "second", Send{}, {x});
  Planned p(std::move(g));
  p.order.order = {0, 2, 1};
  CHECK(p.check() ==
        "\"second\" runs at step 1, before \"first\" at step 2, but both have effects");
}

TEST_CASE("a storage that is overwritten before its old value is read again") {
  // w - next       steps w 0, next 2, z 3 once they are swapped
  //   - z
  Graph g("storage");
  const Value w = g.parameter("w", floats(16), {});
  const Value view = node(g, "view", Head{0, 8}, {w});
  const Value z = node(g, "z", Blend{floats(16)}, {view});
  const Value next = node(g, "next", Scale{2}, {w});
  g.output("z", z);
  assign_all(g, {{w, next}});
  Planned p(std::move(g));
  p.order.order = {0, 1, 3, 2};
  CHECK(p.check() ==
        "f32[16] \"next\" is written over storage \"w\" at step 2, but its old value is read at "
        "step 3");
}

TEST_CASE(
    "an update in place by an op that may not, of a readable value, and elsewhere than planned") {
  Graph g("update");
  const Value w = g.parameter("w", floats(16), {});
  const Value next = node(g, "next", Blend{floats(16)}, {w});
  assign_all(g, {{w, next}});
  Planned p(std::move(g));
  p.order.in_place = {true};
  CHECK(p.check() == "f32[16] \"next\" lies at arena byte 0, but must lie at storage \"w\" byte 0");
  p.place(next) = {plan::Place::Kind::storage, 3, 0};
  CHECK(p.check() ==
        "f32[16] \"next\" is written over f32[16] \"w\" at step 1, which reads it and has no right "
        "to");
  p.order.in_place = {false};
  CHECK(p.check() == "f32[16] \"next\" lies at storage \"w\" byte 0, but must lie in the arena");
  p.replan();
  p.graph.output("y", next);
  p.replan();
  p.order.in_place = {true};
  CHECK(
      p.check() ==
      "storage \"w\" is assigned in place, but f32[16] \"next\" must lie at readable \"y\" byte 0");
}

TEST_CASE("two readable values in one block, and a block of the wrong size") {
  Graph g("readable");
  const Value x = g.input("x", f32, {16});
  const Value a = node(g, "a", Scale{2}, {x});
  const Value b = node(g, "b", Scale{3}, {x});
  g.output("first", a);
  g.output("second", b);
  Planned p(std::move(g));
  p.place(b) = p.place(a);
  CHECK(p.check() ==
        "f32[16] \"b\" lies at readable \"first\" byte 0, but must lie at readable \"second\" byte "
        "0");
  p.replan();
  p.plan.readable_bytes[1] = 32;
  CHECK(p.check() == "readable \"second\" has 32 bytes beside the arena, but needs 64");
}

TEST_CASE("a value in the block of a readable one") {
  Views v;
  Planned p = v.planned();
  p.place(v.c) = p.place(v.y);
  CHECK(p.check() == "f32[16] \"c\" lies at readable \"y\" byte 0, but must lie in the arena");
}

TEST_CASE("readable and assigned values that are memory already") {
  Graph g("memory");
  const Value x = g.input("x", f32, {16});
  const Value w = g.parameter("w", floats(16), {});
  const Value a = node(g, "a", Scale{2}, {x});
  Planned p(std::move(g));
  p.graph.output("y", w);
  p.plan.readable_bytes = {64};
  CHECK(p.check() == "readable \"y\" is f32[16] \"w\" itself, not a copy");
  p.graph.emitter().graph.set_readable(0, a.id());
  p.replan();
  assign_all(p.graph, {{w, x}});
  p.order.in_place = {false};
  CHECK(p.check() == "storage \"w\" is assigned f32[16] \"x\" itself, not a copy");
}

TEST_CASE("scratch over what lives on, over an input, over an output, past the end") {
  Views v;
  Planned p = v.planned({0, 0, 0, 0, 64, 0});  // of c, which reads b while a lives
  const std::int32_t c = v.c.id().node;
  const auto at = [&](Value value) {
    p.plan.scratch_offsets[c] = p.place(value).offset;
    return p.check();
  };
  CHECK(at(v.a) ==
        "scratch of \"c\" (step 4) and f32[16] \"a\" (steps 1 to 5) both hold arena bytes [0, 64)");
  CHECK(at(v.b) ==
        "scratch of \"c\" (step 4) and f32[16] \"b\" (steps 3 to 4) both hold arena bytes [64, "
        "128)");
  CHECK(at(v.c) ==
        "scratch of \"c\" (step 4) and f32[16] \"c\" (steps 4 to 5) both hold arena bytes [128, "
        "192)");
  p.plan.scratch_offsets[c] = 256;
  CHECK(p.check() == "scratch of \"c\" lies at arena bytes [256, 320), but the arena ends at 256");
}

TEST_CASE("another number of held bytes than the largest sum of live ones, or a bound above it") {
  Views v;
  Planned p = v.planned();
  p.plan.held_bytes = 128;
  CHECK(p.check() == "the plan says that its values hold 128 bytes, but they hold 192");
  p.plan.held_bytes = 192;
  p.plan.lower_bound = 256;
  CHECK(p.check() == "the plan's lower bound is 256 bytes, but its values hold 192");
  p.plan.lower_bound = 128;
  CHECK(p.check() == "no fault");
}

TEST_CASE("a plan of another graph") {
  Views v;
  Planned p = v.planned();
  p.plan.places[1].push_back({});
  CHECK(p.check() == "places of \"a\": 2, but must be 1");
  p.plan.places.pop_back();
  CHECK(p.check() == "nodes in the plan: 5, but must be 6");
}

}  // namespace
}  // namespace metronome::testing::check_plan_test
