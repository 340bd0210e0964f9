// Passes on nodes that wait for others which they do not read: the printed graph after each.
#include <doctest/doctest.h>

#include <string>

#include "graph/ir/structural.h"
#include "graph/passes/absorb.h"
#include "graph/passes/batch.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/fuse.h"
#include "graph/passes/loosen.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "tests/graph/after.h"
#include "tests/graph/waiting.h"

namespace metronome::testing::waits_passes_test {
namespace {

const std::string kExpanded =
    "graph \"g\"\n"
    "  %0 = input x : f32[4]\n"
    "  %1 = scale(%0) {factor=3} : f32[4]  \"early\"\n"
    "  %2 = scale(%0) {factor=2} after %1 : f32[4]  \"any/scale\"\n"
    "  %3 = plus(%2, %0) after %1 : f32[4]  \"any/plus\"\n"
    "  %4 = scale(%0) {factor=4} after %3 : f32[4]  \"late\"\n"
    "  \"y0\" is %1\n"
    "  \"y1\" is %3\n"
    "  \"y2\" is %4\n";

TEST_CASE("all that an op becomes waits for what it waited for") {
  const Three t;
  Settings settings;
  CHECK(t.after(passes::lower) == kExpanded);
  settings.mode = Mode::evaluate;
  CHECK(t.after(passes::for_mode, settings) == kExpanded);
  Three read;
  const Value y3 = node(read.g, "y3", Any{true}, {read.any});  // so that loosening serves somebody
  read.g.output("y3", y3);
  settings.fuse.takes = [](const Op& op) { return op.name() == "any"; };
  CHECK(read.after(passes::loosen, settings)
            .starts_with(kExpanded.substr(0, kExpanded.find("  \"y0\""))));
}

TEST_CASE("what waits is not folded; who waits for what folds waits for what it has become") {
  CHECK(Three().after(passes::fold) == Three().g.print());
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value early = node(g, "early", Scale{3}, {x});
  const Value any = node(g, "any", Any{}, {early});
  g.output("y", waiting(g, "late", Scale{4}, {x}, {any}));
  CHECK(passes::fold(g, {}).print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = scale(%0) {factor=3} : f32[4]  \"early\"\n"
        "  %2 = scale(%0) {factor=4} after %1 : f32[4]  \"late\"\n"
        "  \"y\" is %2\n");
}

TEST_CASE("nodes that wait for different nodes are not shared") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value once = node(g, "once", Scale{3}, {x});
  const Value other = node(g, "other", Scale{4}, {once});
  const Value again = waiting(g, "again", Scale{3}, {x}, {other});
  const Value same = waiting(g, "same", Scale{3}, {x}, {other});
  const Value last = waiting(g, "last", Scale{5}, {x}, {again, same});
  g.output("y", node(g, "y", Plus{}, {again, same}));
  g.output("last", last);
  CHECK(after(passes::share, g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = scale(%0) {factor=3} : f32[4]  \"once\"\n"
        "  %2 = scale(%1) {factor=4} : f32[4]  \"other\"\n"
        "  %3 = scale(%0) {factor=3} after %2 : f32[4]  \"again\"\n"
        "  %4 = scale(%0) {factor=5} after %3 : f32[4]  \"last\"\n"
        "  %5 = plus(%3, %3) : f32[4]  \"y\"\n"
        "  \"y\" is %5\n"
        "  \"last\" is %4\n");
}

TEST_CASE("waiting keeps nothing: who waited for a dropped node waits for what that waited for") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value early = node(g, "early", Scale{3}, {x});
  const Value free = node(g, "free", Scale{6}, {x});
  const Value any = waiting(g, "any", Scale{2}, {x}, {early});
  const Value more = waiting(g, "more", Scale{7}, {x}, {free, any});
  g.output("y0", early);
  g.output("y2", waiting(g, "late", Scale{4}, {x}, {more}));
  CHECK(passes::prune(g, {}).print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = scale(%0) {factor=3} : f32[4]  \"early\"\n"
        "  %2 = scale(%0) {factor=4} after %1 : f32[4]  \"late\"\n"
        "  \"y0\" is %1\n"
        "  \"y2\" is %2\n");
}

TEST_CASE(
    "an op that takes in its reader waits for what both waited for, unless it is waited for") {
  const auto absorbed = [](bool waited_for) {
    Graph g("g");
    const Value x = g.input("x", f32, {4});
    const Value a = node(g, "a", Scale{3}, {x}), b = node(g, "b", Scale{4}, {x});
    const Value any = waiting(g, "any", Any{}, {x}, {a});
    g.output("sum", waiting(g, "sum", Accumulate{}, {x, any}, {b}));
    g.output("a", a);
    g.output("b", b);
    if (waited_for) g.output("late", waiting(g, "late", Scale{5}, {x}, {any}));
    return after(passes::absorb, g);
  };
  CHECK(absorbed(false) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = scale(%0) {factor=3} : f32[4]  \"a\"\n"
        "  %2 = scale(%0) {factor=4} : f32[4]  \"b\"\n"
        "  %3 = any(%0, %0) {adds} after %1, %2 : f32[4]  \"any\"\n"
        "  \"sum\" is %3\n"
        "  \"a\" is %1\n"
        "  \"b\" is %2\n");
  CHECK(absorbed(true).find("  %4 = accumulate(%0, %3) after %2 : f32[4]  \"sum\"\n") !=
        std::string::npos);
}

/// Four of a kind, of which the third waits for what reads the first, and a node that waits for the
/// second.
Graph four() {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  Values any;
  any.push_back(node(g, "any0", Any{}, {x}));
  const Value read = node(g, "read", Blend{floats(4)}, {any[0]});
  any.push_back(node(g, "any1", Any{}, {x}));
  any.push_back(waiting(g, "any2", Any{}, {x}, {read}));
  any.push_back(waiting(g, "any3", Any{}, {x}, {any[2]}));
  const Value late = waiting(g, "late", Blend{floats(4)}, {x}, {any[1]});
  for (const Value& v : {any[0], any[1], any[2], any[3], read, late}) g.output(v.node().path, v);
  return g;
}

TEST_CASE("a batch waits for what its members waited for, and joins none that wait for another") {
  Settings settings;
  settings.buckets = 1;
  CHECK(after(passes::batch, four(), settings) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1, %1.1 = batch(%0, %0) {any x 2} : f32[4], f32[4]  \"batch\"\n"
        "  %2 = blend(%1) {f32[4]} : f32[4]  \"read\"\n"
        "  %3 = any(%0) after %2 : f32[4]  \"any2\"\n"
        "  %4 = any(%0) after %3 : f32[4]  \"any3\"\n"
        "  %5 = blend(%0) {f32[4]} after %1 : f32[4]  \"late\"\n"
        "  \"any0\" is %1\n"
        "  \"any1\" is %1.1\n"
        "  \"any2\" is %3\n"
        "  \"any3\" is %4\n"
        "  \"read\" is %2\n"
        "  \"late\" is %5\n");
}

TEST_CASE("a group waits for what its nodes waited for, and joins none that wait for another") {
  Settings settings;
  settings.fuse.takes = [](const Op& op) { return op.name() == "any"; };
  CHECK(after(passes::fuse, four(), settings) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1, %1.1 = group(%0) {any any} : f32[4], f32[4]  \"any1\"\n"
        "  %2 = blend(%1) {f32[4]} : f32[4]  \"read\"\n"
        "  %3 = any(%0) after %2 : f32[4]  \"any2\"\n"
        "  %4 = any(%0) after %3 : f32[4]  \"any3\"\n"
        "  %5 = blend(%0) {f32[4]} after %1 : f32[4]  \"late\"\n"
        "  \"any0\" is %1\n"
        "  \"any1\" is %1.1\n"
        "  \"any2\" is %3\n"
        "  \"any3\" is %4\n"
        "  \"read\" is %2\n"
        "  \"late\" is %5\n");
}

TEST_CASE("who waits for a node that a group leaves nothing of waits for the group") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value early = node(g, "early", Blend{floats(4)}, {x});
  const Value inner = waiting(g, "inner", Any{}, {x}, {early});
  g.output("early", early);
  g.output("y", node(g, "outer", Any{}, {inner}));
  g.output("late", waiting(g, "late", Blend{floats(4)}, {x}, {inner}));
  Settings settings;
  settings.fuse.takes = [](const Op& op) { return op.name() == "any"; };
  CHECK(passes::fuse(g, settings).print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = blend(%0) {f32[4]} : f32[4]  \"early\"\n"
        "  %2 = group(%0) {any any} after %1 : f32[4]  \"outer\"\n"
        "  %3 = blend(%0) {f32[4]} after %2 : f32[4]  \"late\"\n"
        "  \"early\" is %1\n"
        "  \"y\" is %2\n"
        "  \"late\" is %3\n");
}

}  // namespace
}  // namespace metronome::testing::waits_passes_test
