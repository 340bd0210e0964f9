// Loops and branches that data decide, as graphs: guards, what reads what, gradients, mistakes.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "graph/check/verify.h"
#include "graph/control/regions.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::control_test {
namespace {

/// A decision of a value.
struct Decide {
  static constexpr std::string_view name = "decide";
  static constexpr bool differentiable = false;
  Type result{bool_, {}};
  bool operator==(const Decide&) const = default;
  Types infer(std::span<const Type>) const { return {result}; }
};

Value decide(Value x) { return apply(Decide{}, {x}, at(90)); }

Value weighted(Value h) {
  const Value w = make_parameter(h.emitter(), "w", h.type(), {}, at(10));
  return plus(h, w, at(11));
}

std::string printed(const ir::Graph& graph) {
  check::verify(graph, "declare");
  return graph.print();
}

TEST_CASE("until: iterations after the first under a chain of guards, merges at the exit") {
  Graph g("g");
  const Value x = g.input("x", f32, {2}, at(1));
  g.output("y", x.loop(weighted, at(2)).until(decide, 3, at(2)));
  g.validate();
  CHECK(printed(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2]\n"
        "  %1 = read loop/w : f32[2]\n"
        "  %2 = plus(%0, %1) : f32[2]  \"loop/0/plus\"\n"
        "  %3 = decide(%2) : bool[]  \"loop/0/halt/decide\"\n"
        "  %4 = guard(%3) {when=0} : bool[]  \"loop/guard\"\n"
        "  %5 = plus(%2, %1) if %4 : f32[2]  \"loop/1/plus\"\n"
        "  %6 = merge(%4, %5, %2) : f32[2]  \"loop/merge\"\n"
        "  %7 = decide(%5) if %4 : bool[]  \"loop/1/halt/decide\"\n"
        "  %8 = guard(%7, %4) {when=0} : bool[]  \"loop/guard_1\"\n"
        "  %9 = plus(%5, %1) if %8 : f32[2]  \"loop/2/plus\"\n"
        "  %10 = merge(%8, %9, %6) : f32[2]  \"loop/merge_1\"\n"
        "  \"y\" is %10\n");
}

TEST_CASE("while_true: every iteration under a guard") {
  Graph g("g");
  const Value x = g.input("x", f32, {2}, at(1));
  g.output("y", x.loop(weighted).while_true(decide, 2));
  g.validate();
  CHECK(printed(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2]\n"
        "  %1 = decide(%0) : bool[]  \"loop/0/condition/decide\"\n"
        "  %2 = guard(%1) {when=1} : bool[]  \"loop/guard\"\n"
        "  %3 = read loop/w : f32[2]\n"
        "  %4 = plus(%0, %3) if %2 : f32[2]  \"loop/0/plus\"\n"
        "  %5 = merge(%2, %4, %0) : f32[2]  \"loop/merge\"\n"
        "  %6 = decide(%4) if %2 : bool[]  \"loop/1/condition/decide\"\n"
        "  %7 = guard(%6, %2) {when=1} : bool[]  \"loop/guard_1\"\n"
        "  %8 = plus(%4, %3) if %7 : f32[2]  \"loop/1/plus\"\n"
        "  %9 = merge(%7, %8, %5) : f32[2]  \"loop/merge_1\"\n"
        "  \"y\" is %9\n");
}

/// The body's number is the factor, the condition's that of a node of its own.
Value by_number(Value h, int k) { return scale(h, k); }
Value decide_by_number(Value h, int k) { return decide(scale(h, 10 + k)); }

TEST_CASE("bodies and conditions may take the iteration's number") {
  const auto declared = [](const std::function<Value(Value)>& of) {
    Graph g("g");
    g.output("y", of(g.input("x", f32, {2}, at(1))));
    g.validate();
    std::string text = printed(g);
    const std::string first = "graph \"g\"\n  %0 = input x : f32[2]\n";
    return text.starts_with(first) ? text.substr(first.size()) : text;
  };
  const std::string times =
      "  %1 = scale(%0) {factor=0} : f32[2]  \"loop/0/scale\"\n"
      "  %2 = scale(%1) {factor=1} : f32[2]  \"loop/1/scale\"\n"
      "  %3 = scale(%2) {factor=2} : f32[2]  \"loop/2/scale\"\n"
      "  \"y\" is %3\n";
  const std::string until =
      "  %1 = scale(%0) {factor=0} : f32[2]  \"loop/0/scale\"\n"
      "  %2 = scale(%1) {factor=10} : f32[2]  \"loop/0/halt/scale\"\n"
      "  %3 = decide(%2) : bool[]  \"loop/0/halt/decide\"\n"
      "  %4 = guard(%3) {when=0} : bool[]  \"loop/guard\"\n"
      "  %5 = scale(%1) {factor=1} if %4 : f32[2]  \"loop/1/scale\"\n"
      "  %6 = merge(%4, %5, %1) : f32[2]  \"loop/merge\"\n"
      "  \"y\" is %6\n";
  const std::string while_true =
      "  %1 = scale(%0) {factor=10} : f32[2]  \"loop/0/condition/scale\"\n"
      "  %2 = decide(%1) : bool[]  \"loop/0/condition/decide\"\n"
      "  %3 = guard(%2) {when=1} : bool[]  \"loop/guard\"\n"
      "  %4 = scale(%0) {factor=0} if %3 : f32[2]  \"loop/0/scale\"\n"
      "  %5 = merge(%3, %4, %0) : f32[2]  \"loop/merge\"\n"
      "  %6 = scale(%4) {factor=11} if %3 : f32[2]  \"loop/1/condition/scale\"\n"
      "  %7 = decide(%6) if %3 : bool[]  \"loop/1/condition/decide\"\n"
      "  %8 = guard(%7, %3) {when=1} : bool[]  \"loop/guard_1\"\n"
      "  %9 = scale(%4) {factor=1} if %8 : f32[2]  \"loop/1/scale\"\n"
      "  %10 = merge(%8, %9, %5) : f32[2]  \"loop/merge_1\"\n"
      "  \"y\" is %10\n";
  const auto loop_of = [](Value x) { return x.loop(by_number); };
  CHECK(declared([&](Value x) { return loop_of(x).times(3); }) == times);
  CHECK(declared([&](Value x) { return loop_of(x).until(decide_by_number, 2); }) == until);
  CHECK(declared([&](Value x) { return loop_of(x).while_true(decide_by_number, 2); }) ==
        while_true);
  const auto loops_of = [](Value x) {
    return loop({x}, [](const Values& s, int k) { return Values{by_number(s[0], k)}; });
  };
  const auto decided = [](const Values& s, int k) { return decide_by_number(s[0], k); };
  CHECK(declared([&](Value x) { return loops_of(x).times(3)[0]; }) == times);
  CHECK(declared([&](Value x) { return loops_of(x).until(decided, 2)[0]; }) == until);
  CHECK(declared([&](Value x) { return loops_of(x).while_true(decided, 2)[0]; }) == while_true);
}

TEST_CASE("choose: a guard for each branch, one merge") {
  Graph g("g");
  const Value x = g.input("x", f32, {2}, at(1));
  const Value which = g.input("which", i64, {}, at(2));
  const auto times = [](double factor) {
    return [factor](Value h) { return scale(h, factor, at(3)); };
  };
  g.output("y", x.choose(which, {times(2), times(3), times(4)}));
  g.validate();
  CHECK(printed(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2]\n"
        "  %1 = input which : i64[]\n"
        "  %2 = guard(%1) {when=0 of 3} : bool[]  \"choose/guard\"\n"
        "  %3 = scale(%0) {factor=2} if %2 : f32[2]  \"choose/0/scale\"\n"
        "  %4 = guard(%1) {when=1 of 3} : bool[]  \"choose/guard_1\"\n"
        "  %5 = scale(%0) {factor=3} if %4 : f32[2]  \"choose/1/scale\"\n"
        "  %6 = guard(%1) {when=2 of 3} : bool[]  \"choose/guard_2\"\n"
        "  %7 = scale(%0) {factor=4} if %6 : f32[2]  \"choose/2/scale\"\n"
        "  %8 = merge(%2, %3, %4, %5, %7) : f32[2]  \"choose/merge\"\n"
        "  \"y\" is %8\n");
}

TEST_CASE("gradients of until: merged at each iteration, summed for shared weights") {
  Graph g("g");
  const Value x = g.parameter("x", Type{f32, {}}, {}, at(1));
  g.minimize(x.loop(weighted).until(decide, 3), Descent{});
  const ir::Graph d = passes::differentiate(g, {});
  // %12 flows into iteration 2 as it is; where iteration 2 did not run it is iteration 1's.
  CHECK(printed(d) ==
        "graph \"g\"\n"
        "  %0 = read x : f32[]\n"
        "  %1 = read loop/w : f32[]\n"
        "  %2 = plus(%0, %1) : f32[]  \"loop/0/plus\"\n"
        "  %3 = decide(%2) : bool[]  \"loop/0/halt/decide\"\n"
        "  %4 = guard(%3) {when=0} : bool[]  \"loop/guard\"\n"
        "  %5 = plus(%2, %1) if %4 : f32[]  \"loop/1/plus\"\n"
        "  %6 = merge(%4, %5, %2) : f32[]  \"loop/merge\"\n"
        "  %7 = decide(%5) if %4 : bool[]  \"loop/1/halt/decide\"\n"
        "  %8 = guard(%7, %4) {when=0} : bool[]  \"loop/guard_1\"\n"
        "  %9 = plus(%5, %1) if %8 : f32[]  \"loop/2/plus\"\n"
        "  %10 = merge(%8, %9, %6) : f32[]  \"loop/merge_1\"\n"
        "  %11 = fill() {1} : f32[]  \"loop/merge_1.grad\"\n"
        "  %12 = merge(%8, %11, %11) if %4 : f32[]  \"loop/1/plus.grad/merge\"\n"
        "  %13 = merge(%4, %12, %11) : f32[]  \"loop/0/plus.grad/merge\"\n"
        "  %14 = merge(%8, %11) {else zero} : f32[]  \"loop/w.grad/merge\"\n"
        "  %15 = accumulate_if(%14, %12, %4) : f32[]  \"loop/w.grad/accumulate_if\"\n"
        "  %16 = accumulate(%15, %13) : f32[]  \"loop/w.grad/accumulate\"\n"
        "  \"loss\" is %10\n");
}

TEST_CASE("gradients of choose: one merge into what all branches read") {
  Graph g("g");
  const Value x = g.parameter("x", Type{f32, {}}, {}, at(1));
  const Value which = g.input("which", bool_, {}, at(2));
  const auto times = [](double factor) {
    return [factor](Value h) { return scale(h, factor, at(3)); };
  };
  g.minimize(x.choose(which, {times(2), times(3)}), Descent{});
  const ir::Graph d = passes::differentiate(g, {});
  CHECK(printed(d) ==
        "graph \"g\"\n"
        "  %0 = read x : f32[]\n"
        "  %1 = input which : bool[]\n"
        "  %2 = guard(%1) {when=0} : bool[]  \"choose/guard\"\n"
        "  %3 = scale(%0) {factor=2} if %2 : f32[]  \"choose/0/scale\"\n"
        "  %4 = guard(%1) {when=1} : bool[]  \"choose/guard_1\"\n"
        "  %5 = scale(%0) {factor=3} if %4 : f32[]  \"choose/1/scale\"\n"
        "  %6 = merge(%2, %3, %5) : f32[]  \"choose/merge\"\n"
        "  %7 = fill() {1} : f32[]  \"choose/merge.grad\"\n"
        "  %8 = scale(%7) {factor=3} if %4 : f32[]  \"choose/1/scale.grad/scale\"\n"
        "  %9 = scale(%7) {factor=2} if %2 : f32[]  \"choose/0/scale.grad/scale\"\n"
        "  %10 = merge(%2, %9, %8) : f32[]  \"x.grad/merge\"\n"
        "  \"loss\" is %6\n");
}

TEST_CASE("what flows back from a choice is joined once before it enters a loop") {
  Graph g("g");
  const Value x = g.parameter("x", Type{f32, {}}, {}, at(1));
  const Value which = g.input("which", i32, {}, at(2));
  const auto times = [](double factor) {
    return [factor](Value h) { return scale(h, factor, at(3)); };
  };
  const Value looped = x.loop(weighted).until(decide, 6);
  g.minimize(looped.choose(which, {times(2), times(3), times(4)}), Descent{});
  const ir::Graph d = passes::differentiate(g, {});
  check::verify(d, "differentiate");
  const auto guards = [](const ir::Graph& graph) {
    return std::ranges::count_if(graph.nodes(),
                                 [](const Node& n) { return n.op->as<Guard>() != nullptr; });
  };
  CHECK(guards(g) == 5 + 3);
  CHECK(guards(d) == guards(g));
}

TEST_CASE("gradients of loops in loops take no longer than their nodes") {
  Graph g("g");
  const auto body = [](Value h) {
    const Value first = h.loop([](Value v) { return scale(v, 2); }).while_true(decide, 3);
    return first.loop([](Value v) { return plus(v, v); }).while_true(decide, 2);
  };
  const Value w = g.parameter("w", {f32, {}}, {}, at(1));
  g.minimize(plus(w, w).loop(body).times(6), Descent{});
  // Some hundred exits, each reached in several ways: what covers what is a search that once took
  // minutes here.
  CHECK(passes::differentiate(g, {}).nodes().size() < 10 * g.data().nodes().size());
}

TEST_CASE("guards: what implies and excludes what") {
  Graph g("g");
  const Value a = g.input("a", bool_, {}), b = g.input("b", bool_, {}), s = g.input("s", i32, {});
  const auto guard = [](Value decider, std::int64_t when, std::int64_t cases, Value parent = {}) {
    return make_guard(decider, when, cases, parent, at(1)).id();
  };
  const Value outer(a.emitter(), guard(a, 1, 2));
  const ValueId in_b = guard(b, 1, 2, outer), not_b = guard(b, 0, 2, outer);
  const ValueId one = guard(s, 1, 3), two = guard(s, 2, 3);
  const ValueId without = guard(Value(a.emitter(), in_b), 0, 2, outer);
  const control::Regions guards(g.data().nodes());

  CHECK(guards.implies(in_b, outer.id()));
  CHECK_FALSE(guards.implies(outer.id(), in_b));
  CHECK(guards.implies(in_b, ValueId{}));
  CHECK(guards.exclude(in_b, not_b));
  CHECK(guards.exclude(one, two));
  CHECK_FALSE(guards.exclude(one, in_b));
  CHECK(guards.exclude(in_b, without));
  CHECK(guards.implies(without, not_b));  // the outer holds, so b must be what fails
  // Without 1 and 2 the selector is 0.
  const ValueId zero = guard(s, 0, 3);
  CHECK(guards.implies({{one, false}, {two, false}}, zero));
  CHECK_FALSE(guards.implies({{one, false}}, zero));
}

TEST_CASE("share replaces a node by one that runs whenever it does, not by one that may not") {
  Graph g("g");
  const Value x = g.input("x", f32, {2}, at(1));
  const auto doubled = [](Value h) { return scale(h, 2, at(3)); };
  const auto both = [&](Value h) { return plus(doubled(h), doubled(h), at(4)); };
  const Value which = g.input("which", bool_, {}, at(2));
  g.output("y", x.choose(which, {both, doubled}));
  CHECK(passes::share(g, {}).nodes().size() == g.data().nodes().size() - 1);  // not across branches
  Graph again("again");
  const Value z = again.input("x", f32, {2}, at(1));
  const Value outside = doubled(z);
  again.output("outside", outside);
  again.output("y", z.choose(again.input("which", bool_, {}, at(2)), {both, doubled}));
  CHECK(passes::share(again, {}).nodes().size() == again.data().nodes().size() - 3);
}

TEST_CASE("a buffer assigned in a region keeps what it held where the region does not run") {
  Graph g("g");
  const Value x = g.input("x", f32, {}, at(1));
  const auto counts = [](Value h) {
    const Buffer seen = make_buffer(h.emitter(), "seen", {f32, {}}, {}, at(2));
    assign(h.emitter(), seen, plus(seen.value, h), at(3));
    return h;
  };
  g.output("y", x.loop(counts).while_true(decide, 2));
  g.validate();
  CHECK(printed(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = decide(%0) : bool[]  \"loop/0/condition/decide\"\n"
        "  %2 = guard(%1) {when=1} : bool[]  \"loop/guard\"\n"
        "  %3 = read loop/seen : f32[]\n"
        "  %4 = plus(%3, %0) if %2 : f32[]  \"loop/0/plus\"\n"
        "  %5 = merge(%2, %4, %3) : f32[]  \"loop/merge\"\n"
        "  %6 = merge(%2, %0, %0) : f32[]  \"loop/merge_1\"\n"
        "  %7 = decide(%0) if %2 : bool[]  \"loop/1/condition/decide\"\n"
        "  %8 = guard(%7, %2) {when=1} : bool[]  \"loop/guard_1\"\n"
        "  %9 = plus(%5, %0) if %8 : f32[]  \"loop/1/plus\"\n"
        "  %10 = merge(%8, %9, %5) : f32[]  \"loop/merge_2\"\n"
        "  %11 = merge(%8, %0, %6) : f32[]  \"loop/merge_3\"\n"
        "  \"y\" is %11\n"
        "  loop/seen := %10\n");
}

// ---- mistakes -------------------------------------------------------------------------------

std::string mistake_of(const std::function<void(Graph&, Value)>& declare) {
  return testing::mistake_of([&](Graph& g) { declare(g, vector(g)); });
}

Value halved(Value h) { return head(h, 0, 2, at(5)); }

TEST_CASE("a loop that cannot be") {
  CHECK(mistake_of([](Graph&, Value x) { x.loop(same).until(decide, 0, at(7)); }) ==
        "tower.cc:7: loop cannot run up to 0 times\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   1 time or more, but 0");
  CHECK(mistake_of([](Graph&, Value x) { x.loop(same).while_true(decide, -2, at(7)); }) ==
        "tower.cc:7: loop cannot run up to -2 times\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   1 time or more, but -2");
  CHECK(mistake_of([](Graph&, Value x) { x.loop(same).until(same, 3, at(7)); }) ==
        "tower.cc:7: loop cannot be decided\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   one boolean bool[] from its halt, but f32[4]\n"
        "  way out    compare a reduction, as mt::mean(x) > 0.0");
  const auto all = [](Value h) { return apply(Decide{{bool_, {4}}}, {h}, at(6)); };
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(same).while_true(all, 3, at(7)); }) ==
        "tower.cc:7: loop cannot be decided\n"
        "  operand 0  bool[4]  \"loop/0/condition/decide\"  tower.cc:6\n"
        "  requires   one boolean bool[] from its condition, but bool[4]\n"
        "  way out    compare a reduction, as mt::mean(x) > 0.0");
  CHECK(mistake_of([](Graph&, Value x) { x.loop(halved).until(decide, 3, at(7)); }) ==
        "tower.cc:7: loop cannot feed its body's result back\n"
        "  operand 0  f32[4]  \"x\"            tower.cc:1\n"
        "  operand 1  f32[2]  \"loop/0/head\"  tower.cc:5\n"
        "  requires   a body that keeps the type, but f32[4] becomes f32[2]");
  CHECK(mistake_of([](Graph&, Value x) {
          loop({x}, [](const Values& s) { return Values{s[0], s[0]}; }).times(2, at(7));
        }) ==
        "tower.cc:7: loop cannot feed its body's results back\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   as many results as the 1 values that it takes, but 2");
}

TEST_CASE("a body that makes something else in a later iteration") {
  const auto shorter = [](Value h, int k) { return head(h, 0, k == 0 ? 4 : 2, at(5)); };
  const std::string text =
      "tower.cc:7: loop cannot feed its body's result back\n"
      "  operand 0  f32[4]  \"loop/0/head\"  tower.cc:5\n"
      "  operand 1  f32[2]  \"loop/1/head\"  tower.cc:5\n"
      "  requires   a body that keeps the type, but f32[4] becomes f32[2]";
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(shorter).times(3, at(7)); }) == text);
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(shorter).until(decide, 3, at(7)); }) == text);
  const auto shorter_of_all = [&](const Values& s, int k) { return Values{shorter(s[0], k)}; };
  CHECK(mistake_of([&](Graph&, Value x) { loop({x}, shorter_of_all).times(3, at(7)); }) == text);
  const auto fewer = [](const Values& s, int k) { return k == 0 ? s : Values{}; };
  CHECK(mistake_of([&](Graph&, Value x) { loop({x}, fewer).times(3, at(7)); }) ==
        "tower.cc:7: loop cannot feed its body's results back\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   as many results as the 1 values that it takes, but 0");
  const auto other_weight = [](Value h, int k) {
    make_parameter(h.emitter(), "w", floats(4 - k), {}, at(5));
    return h;
  };
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(other_weight).times(2, at(7)); }) ==
        "tower.cc:5: parameter \"loop/w\" cannot be made\n"
        "  requires   the shared parameter f32[4] of tower.cc:5, but parameter f32[3]\n"
        "  way out    inputs of one shape at each use of shared weights");
  const auto undecided = [](Value h, int k) { return k == 0 ? decide(h) : h; };
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(same).until(undecided, 3, at(7)); }) ==
        "tower.cc:7: loop cannot be decided\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   one boolean bool[] from its halt, but f32[4]\n"
        "  way out    compare a reduction, as mt::mean(x) > 0.0");
}

TEST_CASE("a body, a condition, a branch or a selector that gives nothing") {
  const auto nothing = [](Value) { return Value(); };
  const std::string operand = "  operand 0  f32[4]  \"x\"  tower.cc:1\n";
  const std::string absent =
      " that returns a value, but it returned an absent one (a default-made Value)";
  const auto blames_layer = [&](const std::string& path) {
    return fmt::format("tower.cc:7: layer of \"{}\" gives nothing to go on with\n", path) +
           operand + "  requires   a layer" + absent;
  };
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(nothing).times(2, at(7)); }) ==
        blames_layer("loop/0"));
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(same).until(nothing, 2, at(7)); }) ==
        blames_layer("loop/0/halt"));
  CHECK(mistake_of([&](Graph& g, Value x) {
          x.choose(g.input("which", bool_, {}, at(2)), {same, nothing}, at(7));
        }) == blames_layer("choose/1"));
  CHECK(mistake_of([&](Graph&, Value x) { x.choose(nothing, {same, same}, at(7)); }) ==
        blames_layer("choose/selector"));
  CHECK(mistake_of([&](Graph&, Value x) { x.choose(Value(), {same, same}, at(7)); }) ==
        "tower.cc:7: choose cannot take the selector\n" + operand +
            "  operand 1  absent\n"
            "  requires   a selector that is a value, but it is an absent one");
  CHECK(mistake_of([&](Graph&, Value x) {
          loop({x}, [](const Values&) { return Values(1); }).times(2, at(7));
        }) == "tower.cc:7: loop cannot feed its body's result back\n" + operand +
                  "  requires   a body" + absent);
  const auto nothing_of_all = [](const Values&) { return Value(); };
  CHECK(mistake_of([&](Graph&, Value x) {
          loop({x}, [](const Values& s) { return s; }).until(nothing_of_all, 2, at(7));
        }) ==
        "tower.cc:7: loop cannot be decided\n" + operand + "  requires   a condition" + absent);
}

TEST_CASE("a loop of several values whose body or condition cannot be called") {
  const auto body = [](const Values& s) { return s; };
  const std::string operand = "  operand 0  f32[4]  \"x\"  tower.cc:1\n";
  const std::string no_body =
      "tower.cc:7: loop cannot call its body\n" + operand +
      "  requires   a body that can be called, but it is a null pointer or an empty "
      "std::function";
  const std::function<Values(const Values&)> plain;
  CHECK(mistake_of([&](Graph&, Value x) { loop({x}, plain).times(2, at(7)); }) == no_body);
  CHECK(mistake_of([&](Graph&, Value x) { loop({x}, Loops::Body()).times(2, at(7)); }) == no_body);
  const std::string no_condition =
      "tower.cc:7: loop cannot call its condition\n" + operand +
      "  requires   a condition that can be called, but it is a null pointer or an empty "
      "std::function";
  const std::function<Value(const Values&)> decides;
  CHECK(mistake_of([&](Graph&, Value x) { loop({x}, body).until(decides, 2, at(7)); }) ==
        no_condition);
  CHECK(mistake_of([&](Graph&, Value x) {
          loop({x}, body).while_true(Loops::Condition(), 2, at(7));
        }) == no_condition);
}

TEST_CASE("a loop of more iterations than a graph can hold") {
  CHECK(mistake_of([](Graph&, Value x) { x.loop(same).times(std::int64_t{1} << 62, at(7)); }) ==
        "tower.cc:7: loop cannot run 4611686018427387904 times\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   1000000 times or fewer, but 4611686018427387904");
  CHECK(mistake_of([](Graph&, Value x) { x.loop(same).until(decide, 2'000'000, at(7)); }) ==
        "tower.cc:7: loop cannot run up to 2000000 times\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   1000000 times or fewer, but 2000000");
}

TEST_CASE("a mistake in a region is the only one, also where the region kept a buffer") {
  const auto counts = [](Value h) {
    const Buffer seen = make_buffer(h.emitter(), "seen", h.type(), {}, at(2));
    assign(h.emitter(), seen, plus(seen.value, h), at(3));
    return h;
  };
  const auto count = shared(counts);
  const auto fails = [&](Value h) { return plus(h.through(count), halved(h), at(4)); };
  CHECK(mistake_of([&](Graph& g, Value x) {
          const Value y = x.through(count);
          y.choose(g.input("which", bool_, {}, at(6)), {same, fails}, at(7));
          y.through(count);
        }).starts_with("tower.cc:4: plus cannot join the graph as \"choose/1/plus\"\n"));
}

TEST_CASE("a mistake in a loop is told once, whatever hangs on it") {
  const auto wrong = [](Value h) {
    plus(h, make_parameter(h.emitter(), "b", {f32, {3}}, {}, at(7)), at(8));
  };
  const auto body = [&](Value h) {
    wrong(h);
    return scale(h, 2);
  };
  const auto halt = [&](Value h) {
    wrong(h);
    return decide(h);
  };
  const std::string in_body =
      "tower.cc:8: plus cannot join the graph as \"loop/0/plus\"\n"
      "  operand 0  f32[4]  \"x\"       tower.cc:1\n"
      "  operand 1  f32[3]  \"loop/b\"  tower.cc:7\n"
      "  requires   equal types, but f32[4] and f32[3]";
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(body, at(2)).times(3, at(2)); }) == in_body);
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(body, at(2)).until(decide, 3, at(2)); }) ==
        in_body);
  CHECK(mistake_of([&](Graph&, Value x) { x.loop(weighted, at(2)).until(halt, 3, at(2)); }) ==
        "tower.cc:8: plus cannot join the graph as \"loop/0/halt/plus\"\n"
        "  operand 0  f32[4]  \"loop/0/plus\"  tower.cc:11\n"
        "  operand 1  f32[3]  \"loop/halt/b\"  tower.cc:7\n"
        "  requires   equal types, but f32[4] and f32[3]");
}

TEST_CASE("a choice that cannot be") {
  CHECK(mistake_of([](Graph& g, Value x) {
          x.choose(g.input("which", i32, {}, at(2)), {same, halved}, at(7));
        }) ==
        "tower.cc:7: choose cannot join its branches\n"
        "  operand 0  f32[4]  \"x\"              tower.cc:1\n"
        "  operand 1  f32[2]  \"choose/1/head\"  tower.cc:5\n"
        "  requires   branches of one type, but branch 0 gives f32[4] and branch 1 f32[2]");
  CHECK(mistake_of([](Graph&, Value x) { x.choose(x, {same, same}, at(7)); }) ==
        "tower.cc:7: choose cannot take the selector\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  operand 1  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a scalar selector i32[], i64[] or bool[], but f32[4]\n"
        "  way out    reduce it, as with mt::argmax, or cast it");
  CHECK(mistake_of([](Graph& g, Value x) {
          x.choose(g.input("which", bool_, {}, at(2)), {same, same, same}, at(7));
        }) ==
        "tower.cc:7: choose cannot take the selector\n"
        "  operand 0  f32[4]  \"x\"      tower.cc:1\n"
        "  operand 1  bool[]  \"which\"  tower.cc:2\n"
        "  requires   2 branches for a boolean selector, but 3");
  CHECK(mistake_of([](Graph& g, Value x) {
          x.choose(g.input("which", i32, {}, at(2)), Layers(std::vector<Layer>{}), at(7));
        }) ==
        "tower.cc:7: choose cannot make branches\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   1 to 64 branches, but 0");
  CHECK(mistake_of([](Graph& g, Value x) {
          x.choose(g.input("which", i32, {}, at(2)), Layers([](int) { return Layer(same); }),
                   at(7));
        }) ==
        "tower.cc:7: choose cannot make branches\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   the number of branches beside the factory\n"
        "  way out    mt::Layers(factory, count)");
}

TEST_CASE("a value of a region is not for others") {
  Value inside;
  const auto leaks = [&](Value h) { return inside = scale(h, 2, at(5)); };
  const auto chosen = [&](Graph& g, Value x) {
    x.choose(g.input("which", bool_, {}, at(2)), {leaks, same}, at(3));
  };
  const std::string operand = "  operand 0  f32[4]  \"choose/0/scale\"  tower.cc:5\n";
  const std::string requirement =
      "  requires   a value that every step computes, but this one only where \"choose/guard\" is "
      "true\n"
      "  way out    carry it in the stream of its loop or branch";
  CHECK(mistake_of([&](Graph& g, Value x) {
          chosen(g, x);
          scale(inside, 3, at(9));
        }) ==
        "tower.cc:9: scale cannot join the graph as \"scale\"\n" + operand +
            "  requires   operands that are computed whenever they are read, but operand 0 only "
            "where \"choose/guard\" is true\n"
            "  way out    carry it in the stream of its loop or branch");
  CHECK(mistake_of([&](Graph& g, Value x) {
          chosen(g, x);
          g.output("z", inside, at(9));
        }) == "tower.cc:9: output \"z\" cannot be made\n" + operand + requirement);
  CHECK(mistake_of([&](Graph& g, Value x) {
          chosen(g, x);
          inside.named("z", at(9));
        }) == "tower.cc:9: named(\"z\") cannot keep the value\n" + operand + requirement);
  CHECK(mistake_of([&](Graph& g, Value x) {
          chosen(g, x);
          g.gradient(inside, at(9));
        }) == "tower.cc:9: gradient cannot be kept\n" + operand + requirement);
}

}  // namespace
}  // namespace metronome::testing::control_test
