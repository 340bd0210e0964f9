// Ops that come apart where a part of them can be fused: the printed graph after the pass.
#include "graph/passes/loosen.h"

#include <doctest/doctest.h>

#include "graph/emit/emitter.h"
#include "graph/rules/fusion.h"
#include "tests/graph/after.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::loosen_test {
namespace {

/// 2 x + y: a linear layer to the pass. Without y it does not come apart.
struct Layered {
  static constexpr std::string_view name = "layered";
  static constexpr bool differentiable = false;
  bool operator==(const Layered&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Value loosen(std::span<const Value> in) const {
    return in.size() < 2 ? Value() : plus(scale(in[0], 2), in[1]);
  }
};

/// A map of x, broadcast to `shape`.
struct Map {
  static constexpr std::string_view name = "map";
  static constexpr bool differentiable = false;
  Shape shape;
  bool operator==(const Map&) const = default;
  Types infer(std::span<const Type>) const { return {Type{f32, shape}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
};

/// A map of two operands of one shape.
struct Both {
  static constexpr std::string_view name = "both";
  static constexpr bool differentiable = false;
  bool operator==(const Both&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
};

Settings fusing() {
  Settings settings;
  settings.fuse.takes = [](const Op& op) { return op.attributes().empty(); };
  return settings;
}

struct Drawn {
  Graph g{"g"};
  Value x = g.input("x", f32, {4});
  Value y = g.input("y", f32, {4});
  Value layered = node(g, "layered", Layered{}, {x, y});
};

TEST_CASE("an op comes apart where a map reads it") {
  Drawn d;
  d.g.output("z", node(d.g, "z", Map{{4}}, {d.layered}));
  CHECK(after(passes::loosen, d.g, fusing()) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = input y : f32[4]\n"
        "  %2 = scale(%0) {factor=2} : f32[4]  \"layered/scale\"\n"
        "  %3 = plus(%2, %1) : f32[4]  \"layered/plus\"\n"
        "  %4 = map(%3) : f32[4]  \"z\"\n"
        "  \"z\" is %4\n");
}

TEST_CASE("or a reduction that walks over it") {
  Drawn d;
  d.g.output("z", node(d.g, "z", Total{}, {d.layered, d.x}));
  CHECK(passes::loosen(d.g, fusing()).nodes()[3].path == "layered/plus");
}

TEST_CASE("an op stays whole where no part of it can be fused") {
  Drawn d;
  Settings settings = fusing();
  SUBCASE("nothing but the user reads it") { d.g.output("z", d.layered); }
  SUBCASE("its reader does not fuse") { d.g.output("z", scale(d.layered, 3)); }
  SUBCASE("the target does not fuse the reader") {
    settings.fuse.takes = [](const Op& op) { return op.name() != "map"; };
    d.g.output("z", node(d.g, "z", Map{{4}}, {d.layered}));
  }
  SUBCASE("the target fuses nothing") {
    settings.fuse.takes = nullptr;
    d.g.output("z", node(d.g, "z", Map{{4}}, {d.layered}));
  }
  SUBCASE("its reader broadcasts it") { d.g.output("z", node(d.g, "z", Map{{3, 4}}, {d.layered})); }
  SUBCASE("its reader reads it as a whole") {
    d.g.output("z", node(d.g, "z", Total{}, {d.x, d.layered}));
  }
  SUBCASE("it has no simpler form") {
    d.g.output("z", node(d.g, "z", Map{{4}}, {node(d.g, "whole", Layered{}, {d.x})}));
  }
  SUBCASE("its reader runs under a guard") {
    const Value go = d.g.input("go", bool_, {});
    d.g.output("z", d.g.value(d.g.emitter().graph.append(
                        Node{make_op(Map{{4}}), {d.layered.id()}, {}, "z", Line{}, go.id()})));
  }
  CHECK(after(passes::loosen, d.g, settings) == d.g.print());
}

/// Columns of a map of two matrices.
struct Gates {
  Graph g{"g"};
  Value x = g.input("x", f32, {2, 6});
  Value y = g.input("y", f32, {2, 6});
  Value sum = node(g, "sum", Both{}, {x, y});
  Settings settings = [] {
    Settings all;
    all.fuse.takes = [](const Op&) { return true; };
    return all;
  }();
};

TEST_CASE("a map of which columns are read becomes maps of columns") {
  Gates d;
  d.g.output("a", columns(d.sum, 0, 4));
  d.g.output("b", columns(d.sum, 4, 2));
  CHECK(after(passes::loosen, d.g, d.settings) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2, 6]\n"
        "  %1 = input y : f32[2, 6]\n"
        "  %2 = columns(%0) {0:4} : f32[2, 4]  \"columns/columns\"\n"
        "  %3 = columns(%1) {0:4} : f32[2, 4]  \"columns/columns_1\"\n"
        "  %4 = both(%2, %3) : f32[2, 4]  \"columns/both\"\n"
        "  %5 = columns(%0) {4:6} : f32[2, 2]  \"columns_1/columns\"\n"
        "  %6 = columns(%1) {4:6} : f32[2, 2]  \"columns_1/columns_1\"\n"
        "  %7 = both(%5, %6) : f32[2, 2]  \"columns_1/both\"\n"
        "  \"a\" is %4\n"
        "  \"b\" is %7\n");
}

TEST_CASE("it stays whole") {
  Gates d;
  SUBCASE("where it is read whole, too") { d.g.output("all", d.sum); }
  SUBCASE("where another op reads it") { d.g.output("all", scale(d.sum, 2)); }
  SUBCASE("where columns are read twice") { d.g.output("more", columns(d.sum, 3, 3)); }
  SUBCASE("where another waits for it") {
    d.g.output("late", node(d.g, "late", Scale{2}, {d.x}, {}, {d.sum}));
  }
  SUBCASE("where columns are read under a guard") {
    const Value go = d.g.input("go", bool_, {});
    d.g.output("z", or_zero(d.g, "z", go, node_under(d.g, go, "part", Columns{4, 2}, {d.sum})));
  }
  SUBCASE("where the target does not fuse columns") {
    d.settings.fuse.takes = [](const Op& op) { return op.name() != "columns"; };
  }
  d.g.output("a", columns(d.sum, 0, 4));
  CHECK(after(passes::loosen, d.g, d.settings) == d.g.print());
}

TEST_CASE("an op of many operands is asked once whether it fuses") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  g.output("z", node(g, "z", Map{{4}}, std::vector<Value>(100, x)));
  int asked = 0;
  Settings settings;
  settings.fuse.takes = [&](const Op&) { return ++asked > 0; };
  CHECK(passes::loosen(g, settings).nodes().size() == 2);
  CHECK(asked == 2);
}

TEST_CASE("the parts keep the guard") {
  Graph g("g");
  const Value x = g.input("x", f32, {4}), go = g.input("go", bool_, {});
  const auto guarded = [&](OpPtr op, std::vector<ValueId> inputs) {
    return g.emitter().graph.append(
        Node{std::move(op), std::move(inputs), {}, "n", Line{}, go.id()});
  };
  const ValueId whole = guarded(make_op(Layered{}), {x.id(), x.id()});
  g.output("z", g.value(guarded(make_op(Map{{4}}), {whole})));
  const ir::Graph result = passes::loosen(g, fusing());
  REQUIRE(result.nodes().size() == 5);
  for (int i = 2; i < 5; ++i) CHECK(result.nodes()[i].guard == go.id());
}

}  // namespace
}  // namespace metronome::testing::loosen_test
