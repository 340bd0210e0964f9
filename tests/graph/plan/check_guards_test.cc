// Errors that the checker of plans finds in guards: a valid plan, one thing wrong in it, the whole
// message.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/graph/planned.h"

namespace metronome::testing::check_guards_test {
namespace {

// x - a0 - b0 ------------ m - y     a0 and b0 run where `which` is 0; a1, d1 and z where it is 1;
//  \ a1 - b1 - d1 --------/           c1 where `deep` is 1 besides, b1 where it is not
//     \ c1 --/   \ z (of a1)
//
// steps a0 7, b0 8, a1 9, c1 10, b1 11, d1 12, m 13, z 14, y 15
struct Branches {
  Graph graph{"branches"};
  Value x = graph.input("x", f32, {16});
  Value which = node(graph, "which", Blend{Type{bool_, {}}}, {x});
  Value deep = node(graph, "deep", Blend{Type{bool_, {}}}, {x});
  Value zero = guard(graph, "zero", which, 0);
  Value one = guard(graph, "one", which, 1);
  Value inner = guard(graph, "inner", deep, 1, 2, one);
  Value outer = guard(graph, "outer", inner, 0, 2, one);  // one, and not inner
  Value a0 = node_under(graph, zero, "a0", Blend{floats(16)}, {x});
  Value b0 = node_under(graph, zero, "b0", Blend{floats(16)}, {a0});
  Value a1 = node_under(graph, one, "a1", Blend{floats(16)}, {x});
  Value c1 = node_under(graph, inner, "c1", Blend{floats(16)}, {a1});
  Value b1 = node_under(graph, outer, "b1", Blend{floats(16)}, {a1});
  Value d1 = node_under(graph, one, "d1", Merge{1, true}, {inner, c1, b1});
  Value m = node(graph, "m", Merge{1, true}, {zero, b0, d1});
  Value z = node_under(graph, one, "z", Blend{floats(16)}, {a1});
  Value y = node(graph, "y", Blend{floats(16)}, {m});

  Planned planned(std::vector<std::size_t> scratch = {}) {
    graph.output("y", y);
    return Planned(std::move(graph), std::move(scratch), true);
  }
};

TEST_CASE("values of guards that exclude each other may share bytes where the target skips") {
  Branches b;
  Planned p = b.planned();
  // b0 and d1 as branches, c1 and b1 as a guard and its negation, and each where it is merged.
  CHECK(p.place(b.b0) == p.place(b.m));
  CHECK(p.place(b.d1) == p.place(b.m));
  CHECK(p.place(b.c1) == p.place(b.d1));
  CHECK(p.place(b.b1) == p.place(b.d1));
  CHECK(p.plan.arena_bytes == 384);
  p.plan.arena_bytes = 448;
  p.place(b.a1).offset = p.place(b.b0).offset = 384;
  CHECK(p.check() == "no fault");
  p.settings.skips = false;
  CHECK(p.check() ==
        "f32[16] \"b0\" (steps 8 to 13) and f32[16] \"a1\" (steps 9 to 14) both hold arena bytes "
        "[384, 448)");
}

TEST_CASE("values of a guard and of one that it implies hold bytes at the same time") {
  Branches b;
  Planned p = b.planned();
  p.place(b.b1) = p.place(b.a1);
  CHECK(p.check() ==
        "f32[16] \"a1\" (steps 9 to 14) and f32[16] \"b1\" (steps 11 to 12) both hold arena bytes "
        "[320, 384)");
  p.replan();
  p.place(b.d1) = p.place(b.a1);
  CHECK(p.check() ==
        "f32[16] \"a1\" (steps 9 to 14) and f32[16] \"d1\" (steps 12 to 13) both hold arena bytes "
        "[320, 384)");
}

TEST_CASE("what is held in any case, over a branch's value that is still to be read") {
  Branches b;
  Planned p = b.planned();
  p.place(b.m) = p.place(b.a1);
  CHECK(p.check() ==
        "f32[16] \"a1\" (steps 9 to 14) and f32[16] \"m\" (steps 13 to 15) both hold arena bytes "
        "[320, 384)");
}

TEST_CASE("a value that two of guards that exclude each other hold is written over neither") {
  Branches b;
  Planned p = b.planned();
  p.plan.arena_bytes = 448;
  p.place(b.b0).offset = 384;  // beside d1; both live when m is made
  p.place(b.m).offset = 384;
  CHECK(p.check() == "no fault");
  p.place(b.a1).offset = 384;  // shares with b0, lives on
  CHECK(p.check() ==
        "f32[16] \"a1\" (steps 9 to 14) and f32[16] \"m\" (steps 13 to 15) both hold arena bytes "
        "[384, 448)");
}

TEST_CASE("scratch over what the other branch holds, and over what its own does") {
  Branches b;
  std::vector<std::size_t> scratch(16);
  scratch[10] = 64;  // of c1, while b0 and a1 live
  Planned p = b.planned(scratch);
  p.plan.scratch_offsets[10] = p.place(b.b0).offset;
  CHECK(p.check() ==
        "scratch of \"c1\" (step 10) and f32[16] \"c1\" (steps 10 to 12) both hold arena bytes "
        "[192, 256)");
  p.plan.arena_bytes = 512;
  p.place(b.b0).offset = p.plan.scratch_offsets[10] = 448;
  CHECK(p.check() == "no fault");
  p.plan.scratch_offsets[10] = p.place(b.a1).offset;
  CHECK(p.check() ==
        "scratch of \"c1\" (step 10) and f32[16] \"a1\" (steps 9 to 14) both hold arena bytes "
        "[320, 384)");
}

TEST_CASE("a bound that counts what exclude each other") {
  Branches b;
  Planned p = b.planned();
  p.plan.held_bytes = 448;
  CHECK(p.check() == "the plan says that its values hold 448 bytes, but they hold 384");
}

}  // namespace
}  // namespace metronome::testing::check_guards_test
