// Errors for users whose elements of two bytes meet ops that compute: whole texts.
#include <functional>
#include <string>

#include "graph/builder/graph.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/language/layers.h"
#include "ops/losses/losses.h"
#include "ops/optimizers/optimizers.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::half_test {
namespace {

constexpr Line kLine{"tower.cc", 12};

std::string mistakes(const std::function<void(Graph&)>& declare) {
  Graph g("g");
  const LineScope scope(&g.emitter(), kLine);
  declare(g);
  return tests::error_of<GraphError>([&] { g.validate(); });
}

/// Returns the mistakes of one op on x, bf16[4, 6].
std::string said(const std::function<Value(Value x)>& op) {
  return mistakes([&](Graph& g) { op(g.input("x", bf16, {4, 6})); });
}

TEST_CASE("what computes refuses them, and says what to do") {
  CHECK(said([](Value x) { return x + x; }) ==
        "tower.cc:12: add cannot join the graph as \"add\"\n"
        "  operand 0  bf16[4, 6]  \"x\"  tower.cc:12\n"
        "  operand 1  bf16[4, 6]  \"x\"  tower.cc:12\n"
        "  requires   an element type that add has a kernel for, but bf16\n"
        "  way out    cast it: x.cast(mt::f32)");
  const auto refuses = [](const std::string& op, const std::function<Value(Value)>& of) {
    const std::string text = said(of);
    CAPTURE(op);
    CAPTURE(text);
    CHECK(text.find("requires   an element type that " + op +
                    " has a kernel for, but bf16\n"
                    "  way out    cast it: x.cast(mt::f32)") != std::string::npos);
  };
  refuses("gelu", [](Value x) { return gelu(x); });
  refuses("less", [](Value x) { return x < x; });
  refuses("sum", [](Value x) { return sum(x); });
  refuses("argmax", [](Value x) { return argmax(x, 1); });
  refuses("softmax", [](Value x) { return softmax(x); });
  refuses("matmul", [](Value x) { return matmul(x, x.transpose(0, 1)); });
  refuses("mse_loss", [](Value x) { return mse_loss(x, x); });
}

TEST_CASE("so do layers, whose weights would be of two bytes") {
  const auto refused = [](const std::string& layer) {
    return "tower.cc:12: " + layer +
           " cannot be applied\n"
           "  operand 0  bf16[4, 6]  \"x\"  tower.cc:12\n"
           "  requires   f32 or f64, as nothing computes in bf16\n"
           "  way out    cast it: x.cast(mt::f32)";
  };
  CHECK(said([](Value x) { return x.through(linear(3)); }) == refused("linear"));
  CHECK(said([](Value x) { return x.through(layer_norm()); }) == refused("layer_norm"));
  CHECK(said([](Value x) { return x.through(batch_norm()); }) == refused("batch_norm"));
  CHECK(said([](Value x) { return x.through(dropout(0.5)); }) == refused("dropout"));
}

TEST_CASE("mixed types are cast to one that holds both") {
  CHECK(mistakes([](Graph& g) { concat({g.input("a", bf16, {2}), g.input("b", f16, {2})}, 0); }) ==
        "tower.cc:12: concat cannot join the graph as \"concat\"\n"
        "  operand 0  bf16[2]  \"a\"  tower.cc:12\n"
        "  operand 1  f16[2]   \"b\"  tower.cc:12\n"
        "  requires   equal element types, but bf16 and f16\n"
        "  way out    cast operands 0, 1 to f32: x.cast(mt::f32)");
}

TEST_CASE("what moves takes them") {
  CHECK(mistakes([](Graph& g) {
          const Value x = g.input("x", bf16, {4, 6}), index = g.input("index", i64, {3});
          const Value y = concat({x.slice(1, 0, 2), x.slice(1, 2, 6)}, 1).transpose(0, 1);
          const Value z = where(g.input("which", bool_, {6, 4}), y, 0.5);
          const Values halves = chunk(z.reshape({4, 6}), 2, 0);
          g.output("rows", embedding_lookup(halves[1], index));
          g.output("wide", expand(halves[0], {3, 2, 6}).cast(f64));
          g.output("picked", pick(x, g.input("at", i32, {4})));
        }) == "nothing");
}

TEST_CASE("gradients are of the value's type, and sums of them are made in f32") {
  CHECK(mistakes([](Graph& g) {
          const Value w = g.parameter("w", {f32, {5, 6}}, ones());
          const Value narrow = w.cast(bf16);
          const Value rows = embedding_lookup(narrow, g.input("index", i64, {3}));
          g.gradient(narrow);
          g.minimize(sum(rows.cast(f32)) + sum(narrow.cast(f32)), Sgd{});
        }) == "nothing");
}

}  // namespace
}  // namespace metronome::half_test
