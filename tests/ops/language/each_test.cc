// `each` and `slices`: what they build, and what they refuse, in whole messages.
#include <string>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"
#include "graph/passes/absorb.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "ops/expr/functions.h"
#include "ops/language/layers.h"
#include "ops/optimizers/optimizers.h"
#include "tests/doctest.h"
#include "tests/graph/mistake_of.h"

namespace metronome::each_test {
namespace {

Line at(int number) { return {"tower.cc", number}; }

using Paths = std::vector<std::string>;

Paths storages(const ir::Graph& g) {
  Paths paths;
  for (const Storage& s : g.storages()) {
    if (s.kind == StorageKind::parameter) paths.push_back(to_string(s.type) + " " + s.path);
  }
  return paths;
}

Paths nodes(const ir::Graph& g) {
  Paths paths;
  for (const Node& n : g.nodes()) {
    if (!n.inputs.empty()) paths.push_back(n.path);
  }
  return paths;
}

/// The layer without its mark.
Layer unmarked(Layer layer) {
  return [layer = std::move(layer)](Value x, Line line) { return layer(x, line); };
}

TEST_CASE("which layers are rowwise") {
  CHECK(linear(4).is_rowwise());
  CHECK(layer_norm().is_rowwise());
  CHECK(softmax().is_rowwise());
  CHECK(log_softmax().is_rowwise());
  CHECK(Layer(gelu).is_rowwise());
  CHECK(residual(linear(4)).is_rowwise());
  CHECK(shared(residual(gelu)).is_rowwise());
  CHECK(rowwise([](Value x) { return x * 2.0; }).is_rowwise());

  CHECK_FALSE(Layer([](Value x) { return x * 2.0; }).is_rowwise());
  CHECK_FALSE(softmax(0).is_rowwise());
  CHECK_FALSE(dropout().is_rowwise());
  CHECK_FALSE(batch_norm().is_rowwise());
  CHECK_FALSE(embedding(4, 2).is_rowwise());
  CHECK_FALSE(Layer(sum).is_rowwise());
  CHECK_FALSE(residual(dropout()).is_rowwise());
  CHECK_FALSE(shared(batch_norm()).is_rowwise());
}

TEST_CASE(
    "each: a rowwise layer is one node, another one a node for each row; weights are one set") {
  Graph once("once");
  CHECK(once.input("x", f32, {2, 5, 3}).each(linear(4)).type() == Type{f32, {2, 5, 4}});
  CHECK(nodes(once) == Paths{"each/linear"});

  Graph rows("rows");
  CHECK(rows.input("x", f32, {2, 5, 3}).each(unmarked(linear(4))).type() == Type{f32, {2, 5, 4}});
  CHECK(nodes(rows) == Paths{"each/chunk", "each/0/reshape", "each/0/linear", "each/1/reshape",
                             "each/1/linear", "each/reshape", "each/reshape_1", "each/concat"});
  CHECK(storages(rows) == Paths{"f32[4, 3] each/linear/weight", "f32[4] each/linear/bias"});
  CHECK(storages(once) == storages(rows));
}

TEST_CASE("slices: a rowwise layer is one node, another one a node for each slice") {
  Graph once("once");
  CHECK(once.input("x", f32, {2, 6}).slices(2, linear(4)).type() == Type{f32, {2, 8}});
  CHECK(nodes(once) == Paths{"slices/reshape", "slices/linear", "slices/reshape_1"});

  Graph apart("apart");
  CHECK(apart.input("x", f32, {2, 6}).slices(2, unmarked(linear(4))).type() == Type{f32, {2, 8}});
  CHECK(nodes(apart) ==
        Paths{"slices/chunk", "slices/0/linear", "slices/1/linear", "slices/concat"});
  CHECK(storages(apart) == Paths{"f32[4, 3] slices/linear/weight", "f32[4] slices/linear/bias"});
  CHECK(storages(once) == storages(apart));
}

TEST_CASE("in a named scope both keep their word, as their storages carry no index") {
  Graph g("g");
  g.input("x", f32, {2, 6}).scope("heads", [](Value x) { return x.slices(2, linear(4)); });
  g.input("y", f32, {2, 6}).scope("rows", [](Value x) { return x.each(linear(4)); });
  CHECK(storages(g) == Paths{"f32[4, 3] heads/slices/linear/weight",
                             "f32[4] heads/slices/linear/bias", "f32[4, 6] rows/each/linear/weight",
                             "f32[4] rows/each/linear/bias"});
}

TEST_CASE("the elements of a vector are numbers, no rows") {
  Graph g("g");
  CHECK(g.input("x", f32, {2}).each(gelu).type() == Type{f32, {2}});
  CHECK(nodes(g) == Paths{"each/chunk", "each/0/reshape", "each/0/gelu", "each/1/reshape",
                          "each/1/gelu", "each/reshape", "each/reshape_1", "each/concat"});
}

TEST_CASE("gradients of parts are added to their places: the whole is written once") {
  Graph g("parts");
  const Value w = g.parameter("w", {f32, {4, 6}}, {});
  const Values parts = chunk(g.input("x", f32, {4, 6}) * w, 3, 1);
  g.minimize(sum(tanh(parts[0])) + sum(exp(parts[1])) + sum(parts[2] * parts[0]), Sgd{.lr = 0.1});
  const ir::Graph step = passes::absorb(
      passes::prune(passes::update(passes::differentiate(passes::lower(g, {}), {}), {}), {}), {});
  std::vector<std::string> grads;
  for (const Node& node : step.nodes()) {
    const std::string name(node.op->name());
    if (name == "slice_grad") grads.push_back(node.op->attributes());
    CHECK((name != "accumulate" || node.types[0].shape == Shape{4, 2}));  // two uses of one part
  }
  CHECK(grads == Paths{"1, 4 of 6", "1, 2 of 6, accumulate", "1, 0 of 6, accumulate"});
}

/// The one mistake of applying a verb to an input "x".
std::string mistake_of(const Layer& verb, Shape shape) {
  Graph g("tower");
  CHECK(verb(g.input("x", f32, std::move(shape), at(1)), at(2)).poisoned());
  return testing::mistake_of(g);
}

Layer each_of(Layer layer) {
  return [=](Value x, Line line) { return x.each(layer, line); };
}
Layer slices_of(std::int64_t n, Layer layer) {
  return [=](Value x, Line line) { return x.slices(n, layer, line); };
}

TEST_CASE("values that cannot be taken apart") {
  CHECK(mistake_of(each_of(gelu), {}) ==
        "tower.cc:2: each cannot take the value apart\n"
        "  operand 0  f32[]  \"x\"  tower.cc:1\n"
        "  requires   a first dimension of 1 or more, but []");
  CHECK(mistake_of(each_of(gelu), {0, 3}) ==
        "tower.cc:2: each cannot take the value apart\n"
        "  operand 0  f32[0, 3]  \"x\"  tower.cc:1\n"
        "  requires   a first dimension of 1 or more, but [0, 3]");
  CHECK(mistake_of(slices_of(2, gelu), {}) ==
        "tower.cc:2: slices cannot cut the value into 2\n"
        "  operand 0  f32[]  \"x\"  tower.cc:1\n"
        "  requires   a last dimension that 2 divides, but []");
  CHECK(mistake_of(slices_of(4, gelu), {4, 6}) ==
        "tower.cc:2: slices cannot cut the value into 4\n"
        "  operand 0  f32[4, 6]  \"x\"  tower.cc:1\n"
        "  requires   a last dimension that 4 divides, but [4, 6]");
  CHECK(mistake_of(slices_of(0, gelu), {4, 6}) ==
        "tower.cc:2: slices cannot cut the value into 0\n"
        "  operand 0  f32[4, 6]  \"x\"  tower.cc:1\n"
        "  requires   1 slice or more, but 0");
}

TEST_CASE("results that cannot be joined") {
  const Layer grows = [](Value h, int i) { return h.slice(0, 0, i + 1, at(3)); };
  CHECK(mistake_of(each_of(grows), {2, 3}) ==
        "tower.cc:2: each cannot join what its layer gives\n"
        "  operand 0  f32[1]  \"each/0/slice\"  tower.cc:3\n"
        "  operand 1  f32[2]  \"each/1/slice\"  tower.cc:3\n"
        "  requires   results of one type, but row 0 gives f32[1] and row 1 f32[2]");
  CHECK(mistake_of(slices_of(2, grows), {4, 6}) ==
        "tower.cc:2: slices cannot join what its layer gives\n"
        "  operand 0  f32[1, 3]  \"slices/0/slice\"  tower.cc:3\n"
        "  operand 1  f32[2, 3]  \"slices/1/slice\"  tower.cc:3\n"
        "  requires   results of one type, but slice 0 gives f32[1, 3] and slice 1 f32[2, 3]");
  CHECK(mistake_of(slices_of(2, [](Value h) { return sum(h, {}, false, at(3)); }), {6}) ==
        "tower.cc:2: slices cannot join what its layer gives\n"
        "  operand 0  f32[6]  \"x\"             tower.cc:1\n"
        "  operand 1  f32[]   \"slices/0/sum\"  tower.cc:3\n"
        "  requires   results of one or more dimensions, but slice 0 gives a scalar\n"
        "  way out    give it a dimension: reshape({1})");
  CHECK(mistake_of(each_of([](Value h, int i) { return i == 0 ? h : Value(); }), {2, 3}) ==
        "tower.cc:2: layer of \"each/1\" gives nothing to go on with\n"
        "  operand 0  f32[3]  \"each/1/reshape\"  tower.cc:2\n"
        "  requires   a layer that returns a value, but it returned an absent one (a default-made "
        "Value)");
}

TEST_CASE("layers that are not what they are marked as") {
  CHECK(mistake_of(each_of(rowwise([](Value h) { return sum(h, 0, false, at(3)); })), {2, 3}) ==
        "tower.cc:2: each cannot join what its layer gives\n"
        "  operand 0  f32[2, 3]  \"x\"         tower.cc:1\n"
        "  operand 1  f32[3]     \"each/sum\"  tower.cc:3\n"
        "  requires   a rowwise layer's result of leading dimensions [2]\n"
        "  way out    mt::rowwise is for layers that treat leading dimensions alike");
  CHECK(
      mistake_of(slices_of(2, rowwise([](Value h) { return sum(h, -1, false, at(3)); })), {4, 6}) ==
      "tower.cc:2: slices cannot join what its layer gives\n"
      "  operand 0  f32[4, 2, 3]  \"slices/reshape\"  tower.cc:2\n"
      "  operand 1  f32[4, 2]     \"slices/sum\"      tower.cc:3\n"
      "  requires   a rowwise layer's result of rank 3, of leading dimensions [4, 2]\n"
      "  way out    mt::rowwise is for layers that treat leading dimensions alike");
  CHECK(mistake_of(each_of(rowwise([](Value) { return Value(); })), {2, 3}) ==
        "tower.cc:2: layer of \"each\" gives nothing to go on with\n"
        "  operand 0  f32[2, 3]  \"x\"  tower.cc:1\n"
        "  requires   a layer that returns a value, but it returned an absent one (a default-made "
        "Value)");
}

TEST_CASE("a layer's own mistake is told once, and with the caller's line") {
  CHECK(mistake_of(each_of(linear(4)), {3}) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  f32[]  \"each/0/reshape\"  tower.cc:2\n"
        "  requires   an operand of one or more dimensions, but a scalar\n"
        "  way out    x.reshape({1})");
  CHECK(mistake_of(slices_of(2, unmarked(linear(0))), {4, 6}) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  f32[4, 3]  \"slices/chunk\"  tower.cc:2\n"
        "  requires   a number of outputs of 1 or more, but 0");
}

}  // namespace
}  // namespace metronome::each_test
