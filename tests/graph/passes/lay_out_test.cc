// Tensors in other layouts: what the pass writes, as text.
#include "graph/passes/lay_out.h"

#include <doctest/doctest.h>

#include <optional>
#include <span>
#include <string>

#include "graph/ir/structural.h"
#include "tests/graph/after.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::lay_out_test {
namespace {

const Layout kInBlocks{{}, 1, 16};

/// Sums of gradients stand for an op that wants channels in blocks.
Settings wanting(Layout layout = kInBlocks) {
  Settings settings;
  settings.layouts.wants = [layout](const OpPtr& op,
                                    std::span<const Type> types) -> std::optional<Layout> {
    if (op->as<Accumulate>() == nullptr || types[0].rank() != 2) return std::nullopt;
    return layout;
  };
  return settings;
}

std::string laid_out(const ir::Graph& graph, const Settings& settings = wanting()) {
  return after(passes::lay_out, graph, settings);
}

TEST_CASE("copies stand where one layout meets another, and nowhere else") {
  // x - sum - copy - norm - y      the copy maps elements, the norm knows no layout; x is copied
  // once
  //  \ sum /
  Graph g("blocks");
  const Value x = g.input("x", f32, {8, 20});
  const Value a = node(g, "a", Accumulate{}, {x, x});
  const Value b = node(g, "b", Copy{}, {a});
  const Value c = node(g, "c", Accumulate{}, {b, x});
  g.output("y", node(g, "y", Norm{}, {c}));
  CHECK(laid_out(g) ==
        "graph \"blocks\"\n"
        "  %0 = input x : f32[8, 20]\n"
        "  %1 = relayout(%0) {plain to 0 1/16 16} : f32[8, 2, 16]  \"x\"\n"
        "  %2 = accumulate(%1, %1) : f32[8, 2, 16]  \"a\"\n"
        "  %3 = copy(%2) : f32[8, 2, 16]  \"b\"\n"
        "  %4 = accumulate(%3, %1) : f32[8, 2, 16]  \"c\"\n"
        "  %5 = relayout(%4) {0 1/16 16 to plain} : f32[8, 20]  \"c\"\n"
        "  %6, %6.1 = norm(%5) : f32[8, 20], f32[]  \"y\"\n"
        "  \"y\" is %6\n");
}

TEST_CASE("an order of dimensions is a layout too; what users read is plain") {
  Graph g("order");
  const Value x = g.input("x", f32, {8, 20});
  g.output("y", node(g, "a", Accumulate{}, {x, x}));
  CHECK(laid_out(g, wanting({{1, 0}})) ==
        "graph \"order\"\n"
        "  %0 = input x : f32[8, 20]\n"
        "  %1 = relayout(%0) {plain to 1 0} : f32[20, 8]  \"x\"\n"
        "  %2 = accumulate(%1, %1) : f32[20, 8]  \"a\"\n"
        "  %3 = relayout(%2) {1 0 to plain} : f32[8, 20]  \"a\"\n"
        "  \"y\" is %3\n");
}

TEST_CASE("a copy runs where what it copies runs") {
  Graph g("guards");
  const Value x = g.input("x", f32, {8, 20});
  const Value go = node(g, "go", Blend{Type{bool_, {}}}, {x});
  const Value a = node_under(g, go, "a", Accumulate{}, {x, x});
  const Value b = node_under(g, go, "b", Norm{}, {a});
  g.output("y", node(g, "m", Merge{1, true}, {go, b, x}));
  CHECK(laid_out(g) ==
        "graph \"guards\"\n"
        "  %0 = input x : f32[8, 20]\n"
        "  %1 = blend(%0) {bool[]} : bool[]  \"go\"\n"
        "  %2 = relayout(%0) {plain to 0 1/16 16} : f32[8, 2, 16]  \"x\"\n"
        "  %3 = accumulate(%2, %2) if %1 : f32[8, 2, 16]  \"a\"\n"
        "  %4 = relayout(%3) {0 1/16 16 to plain} if %1 : f32[8, 20]  \"a\"\n"
        "  %5, %5.1 = norm(%4) if %1 : f32[8, 20], f32[]  \"b\"\n"
        "  %6 = merge(%1, %5, %0) : f32[8, 20]  \"m\"\n"
        "  \"y\" is %6\n");
}

TEST_CASE("a parameter that an op wants in blocks is kept so; plans made later keep to it") {
  Graph g("kept");
  const Value x = g.input("x", f32, {8, 20});
  const Value w = g.parameter("w", {f32, {8, 20}}, {});
  g.output("y", node(g, "a", Accumulate{}, {w, x}));
  const ir::Graph first = passes::lay_out(g, wanting());
  CHECK(first.storage(*first.find_storage("w")).layout == kInBlocks);
  CHECK(laid_out(g) ==
        "graph \"kept\"\n"
        "  %0 = input x : f32[8, 20]\n"
        "  %1 = read w : f32[8, 2, 16]\n"
        "  %2 = relayout(%0) {plain to 0 1/16 16} : f32[8, 2, 16]  \"x\"\n"
        "  %3 = accumulate(%1, %2) : f32[8, 2, 16]  \"a\"\n"
        "  %4 = relayout(%3) {0 1/16 16 to plain} : f32[8, 20]  \"a\"\n"
        "  \"y\" is %4\n");

  Settings later = wanting();
  later.layouts.kept = {{"w", Layout{}}};
  const ir::Graph second = passes::lay_out(g, later);
  CHECK(second.storage(*second.find_storage("w")).layout.plain());
  Settings nothing;
  nothing.layouts.kept = {{"w", kInBlocks}};
  const ir::Graph third = passes::lay_out(g, nothing);
  CHECK(third.storage(*third.find_storage("w")).layout == kInBlocks);
  CHECK(passes::lay_out(g, Settings{}).print() == g.data().print());
}

TEST_CASE("a copy into a layout is a view where no element moves") {
  const Layout last{{0, 2, 3, 1}};
  const auto is_view = [](const Shape& shape, const Layout& from, const Layout& to) {
    return Relayout{shape, from, to}.alias({}).has_value();
  };
  CHECK(is_view({8, 20, 1, 1}, {}, last));
  CHECK(is_view({8, 1, 5, 5}, last, {}));
  CHECK(is_view({1, 20, 1, 5}, {{0, 2, 1, 3}}, {}));
  CHECK_FALSE(is_view({8, 20, 1, 5}, {}, last));
  CHECK_FALSE(is_view({8, 20, 5, 5}, {}, last));
  CHECK_FALSE(is_view({8, 20}, {}, kInBlocks));
  CHECK_FALSE(is_view({8, 20}, kInBlocks, {}));
}

TEST_CASE("a layout that does not fit is refused") {
  const Layout wrong[] = {{{0, 0}}, {{0}}, {{}, 2, 16}, {{}, 0, 0}};
  for (const Layout& layout : wrong) {
    CHECK_THROWS_AS(require_fits(layout, 2), Requirement);
  }
  CHECK(requirement([] { require_fits({{0, 0}}, 2); }) ==
        "a layout that names each of the 2 dimensions once, and blocks of 1 or more of one of "
        "them");
  CHECK(to_string(Layout{{0, 2, 3, 1}, 1, 16}, 4) == "0 2 3 1/16 16");
}

}  // namespace
}  // namespace metronome::testing::lay_out_test
