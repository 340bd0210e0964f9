// Which paths storages and nodes get.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/graph/test_ops.h"

namespace metronome {
namespace {

using namespace testing;

/// A library layer with one weight: scope "dense", an op of its own name.
struct Dense {
  static constexpr std::string_view name = "dense";
  bool operator==(const Dense&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const { return {v.grad(), v.grad()}; }
};

struct DenseLayer {
  Value operator()(Value x, Line line) const {
    LineScope ours(x.graph(), line);
    PathScope scope(x.graph(), "dense", PathScope::Kind::layer);
    const Value weight = make_parameter(x.graph(), "weight", x.type(), {}, line);
    return apply(Dense{}, {x, weight}, line);
  }
};
constexpr DenseLayer dense;

std::vector<std::string> parameters(const Graph& g) {
  std::vector<std::string> paths;
  for (const Storage& s : g.storages()) {
    if (s.kind == StorageKind::parameter) paths.push_back(s.path);
  }
  return paths;
}

std::vector<std::string> nodes(const Graph& g) {
  std::vector<std::string> paths;
  for (const Node& n : g.nodes()) {
    if (n.op->as<Dense>() != nullptr || n.op->as<Scale>() != nullptr) paths.push_back(n.path);
  }
  return paths;
}

using Paths = std::vector<std::string>;

TEST_CASE("siblings of one kind are numbered in order; the op takes its layer's path") {
  Graph g("g");
  g.input("x", f32, {4}).through(dense).through(dense);
  CHECK(parameters(g) == Paths{"dense/weight", "dense_1/weight"});
  CHECK(nodes(g) == Paths{"dense", "dense_1"});
}

TEST_CASE("repeat makes weights of its own for each copy") {
  Graph g("g");
  g.input("x", f32, {4}).repeat(2, dense).repeat(1, dense);
  CHECK(parameters(g) ==
        Paths{"repeat/0/dense/weight", "repeat/1/dense/weight", "repeat_1/0/dense/weight"});
}

TEST_CASE("directly inside a named scope a repeat adds only its indices") {
  Graph g("g");
  g.input("x", f32, {4}).scope("tower", [](Value h) { return h.repeat(2, dense); });
  CHECK(parameters(g) == Paths{"tower/0/dense/weight", "tower/1/dense/weight"});
}

TEST_CASE("a loop has one set of weights and a node for each pass") {
  Graph g("g");
  g.input("x", f32, {4}).loop(dense).times(3);
  CHECK(parameters(g) == Paths{"loop/dense/weight"});
  CHECK(nodes(g) == Paths{"loop/0/dense", "loop/1/dense", "loop/2/dense"});
}

TEST_CASE("a repeat inside a loop reuses each copy's weights") {
  Graph g("g");
  g.input("x", f32, {4}).loop([](Value h) { return h.repeat(2, dense); }).times(2);
  CHECK(parameters(g) == Paths{"loop/repeat/0/dense/weight", "loop/repeat/1/dense/weight"});
  CHECK(nodes(g) == Paths{"loop/0/repeat/0/dense", "loop/0/repeat/1/dense", "loop/1/repeat/0/dense",
                          "loop/1/repeat/1/dense"});
}

TEST_CASE("a shared layer makes its weights at the first call and reuses them") {
  Graph g("g");
  const Layer tower = shared(dense);
  const Value x = g.input("x", f32, {4});
  x.through(tower);
  x.scope("other", tower);
  CHECK(parameters(g) == Paths{"shared/dense/weight"});
  CHECK(nodes(g) == Paths{"shared/dense", "other/shared/dense"});
}

TEST_CASE("split puts each branch under its index") {
  Graph g("g");
  const Branches b = g.input("x", f32, {4}).split(dense, dense);
  CHECK(parameters(g) == Paths{"split/0/dense/weight", "split/1/dense/weight"});
  const Value joined = b.merge([](const Values& v) { return plus(v[0], v[1]); });
  CHECK(joined.node().path == "plus");
}

TEST_CASE("a copy's layer may take its index, and an edit elsewhere keeps paths") {
  const auto declare = [](bool edited) {
    Graph g("g");
    Value x = g.input("x", f32, {4});
    if (edited) x = x.through([](Value h) { return scale(h, 2); });
    x.scope("tower", [](Value h) {
      return h.repeat(2, [](Value y, int i) { return scale(y.through(dense), i); });
    });
    return parameters(g);
  };
  CHECK(declare(false) == Paths{"tower/0/dense/weight", "tower/1/dense/weight"});
  CHECK(declare(true) == declare(false));
}

TEST_CASE("freeze and thaw reach a scope or one path, and nothing beside it") {
  Graph g("g");
  g.input("x", f32, {4}).scope("a", dense).scope("ab", dense);
  g.freeze("a");
  CHECK_FALSE(g.storage(*g.find_storage("a/dense/weight")).trainable);
  CHECK(g.storage(*g.find_storage("ab/dense/weight")).trainable);
  g.thaw("a/dense/weight");
  CHECK(g.storage(*g.find_storage("a/dense/weight")).trainable);
}

TEST_CASE("a buffer is threaded: each use takes what the previous one left") {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  const auto use = [&](Value h) {
    const Buffer b = make_buffer(h.graph(), "count", Type{f32, {}}, {}, Line::here());
    assign(h.graph(), b, plus(b.value, h), Line::here());
    return h;
  };
  x.loop(use).times(2);
  CHECK(g.print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = read loop/count : f32[]\n"
        "  %2 = plus(%1, %0) : f32[]  \"loop/0/plus\"\n"
        "  %3 = plus(%2, %0) : f32[]  \"loop/1/plus\"\n"
        "  loop/count := %3\n");
}

TEST_CASE("a graph for graphviz draws nodes, edges and what is assigned") {
  Graph g("g");
  const Value s = g.state("s", Type{f32, {}});
  g.feed(s, scale(s, 2));
  CHECK(g.dot() ==
        "digraph \"g\" {\n"
        "  rankdir=TB;\n"
        "  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n"
        "  n0 [label=\"read\\ns\\nf32[]\", style=filled, fillcolor=lightyellow];\n"
        "  n1 [label=\"scale\\nscale\\nf32[]\"];\n"
        "  n0 -> n1;\n"
        "  s3 [label=\"s\", style=filled, fillcolor=lightyellow];\n"
        "  n1 -> s3 [style=dashed];\n"
        "}\n");
}

}  // namespace
}  // namespace metronome
