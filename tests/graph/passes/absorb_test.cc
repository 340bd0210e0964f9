// Sums that move into the op that makes a term: the printed graph after the pass.
#include "graph/passes/absorb.h"

#include <doctest/doctest.h>

#include "graph/emit/emitter.h"
#include "graph/ir/structural.h"
#include "tests/graph/after.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::absorb_test {
namespace {

/// x y, and z added where it `adds`: a matrix product to the pass.
struct Product {
  static constexpr std::string_view name = "product";
  static constexpr bool differentiable = false;
  bool adds = false;
  bool operator==(const Product&) const = default;
  std::string attributes() const { return adds ? "adds" : ""; }
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  OpPtr absorb(const Op& consumer, std::size_t) const {
    return adds || consumer.as<Accumulate>() == nullptr ? nullptr : make_op(Product{true});
  }
};

Value product(Value x, Value y) { return apply(Product{}, {x, y}, Line{"product.cc", 1}); }

TEST_CASE("a product takes in the sum that alone reads it, in the sum's place") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value xy = product(x, g.input("y", f32, {4}));
  const Value c = scale(x, 2);  // made after the product
  g.output("sum", accumulate(c, xy));
  CHECK(after(passes::absorb, g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = input y : f32[4]\n"
        "  %2 = scale(%0) {factor=2} : f32[4]  \"scale\"\n"
        "  %3 = product(%0, %1, %2) {adds} : f32[4]  \"product\"\n"
        "  \"sum\" is %3\n");
  CHECK(to_string(passes::absorb(g, {}).nodes()[3].line) == "product.cc:1");
}

TEST_CASE("the product may be the sum's first operand") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  g.output("sum", accumulate(product(x, x), x));
  CHECK(after(passes::absorb, g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = product(%0, %0, %0) {adds} : f32[4]  \"product\"\n"
        "  \"sum\" is %1\n");
}

TEST_CASE("of a sum of products the first is made, the others are added to it") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value y = g.input("y", f32, {4});
  const Value first = product(x, x), second = product(x, y), third = product(y, y);
  g.output("sum", accumulate(accumulate(first, second), third));
  CHECK(after(passes::absorb, g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = input y : f32[4]\n"
        "  %2 = product(%0, %0) : f32[4]  \"product\"\n"
        "  %3 = product(%0, %1, %2) {adds} : f32[4]  \"product_1\"\n"
        "  %4 = product(%1, %1, %3) {adds} : f32[4]  \"product_2\"\n"
        "  \"sum\" is %4\n");
}

TEST_CASE("a product that something else needs is left") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value xx = product(x, x);
  const Value sum = accumulate(x, xx);

  SUBCASE("another node reads it") { g.output("y", plus(sum, xx)); }
  SUBCASE("the sum reads it twice") {
    g.output("y", accumulate(product(x, x), accumulate(xx, xx)));
  }
  SUBCASE("it is readable") {
    g.output("y", sum);
    g.output("xx", xx);
  }
  SUBCASE("it is assigned") {
    g.feed(g.state("s", floats(4)), xx);
    g.output("y", sum);
  }
  SUBCASE("something else than a sum reads it") { g.output("y", plus(x, product(x, xx))); }
  CHECK(after(passes::absorb, g).find("= product(%0, %0) :") != std::string::npos);
}

TEST_CASE("a product under another guard than the sum's is left") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value go = g.input("go", bool_, {});
  const auto guarded = [&](OpPtr op, std::vector<ValueId> inputs, ValueId guard) {
    return g.emitter().graph.append(Node{std::move(op), std::move(inputs), {}, "n", Line{}, guard});
  };
  const ValueId under = guarded(make_op(Product{}), {x.id(), x.id()}, go.id());
  SUBCASE("none") {
    g.output("y", g.value(guarded(make_op(AccumulateIf{}), {x.id(), under, go.id()}, {})));
    CHECK(after(passes::absorb, g) == g.print());
  }
  SUBCASE("the same is kept") {
    const ValueId sum = guarded(make_op(Accumulate{}), {x.id(), under}, go.id());
    g.output("y", or_zero(g, "y", go, g.value(sum)));
    const ir::Graph result = passes::absorb(g, {});
    REQUIRE(result.nodes().size() == 4);
    CHECK(result.nodes()[2].guard == ValueId{1, 0});
    CHECK(result.nodes()[2].op->as<Product>() != nullptr);
  }
}

}  // namespace
}  // namespace metronome::testing::absorb_test
