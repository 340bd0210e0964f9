// The paths that storages and nodes get.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/rules/gradient.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::paths_test {
namespace {

/// A library layer with one weight: scope "dense", an op of its own name.
struct Dense {
  static constexpr std::string_view name = "dense";
  bool operator==(const Dense&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const { return {v.grad(), v.grad()}; }
};

struct DenseLayer {
  Value operator()(Value x, Line line) const {
    LineScope ours(x.emitter(), line);
    PathScope scope(x.emitter(), "dense", PathScope::Kind::layer);
    const Value weight = make_parameter(x.emitter(), "weight", x.type(), {}, line);
    return apply(Dense{}, {x, weight}, line);
  }
};
constexpr DenseLayer dense;

std::vector<std::string> parameters(const ir::Graph& g) {
  std::vector<std::string> paths;
  for (const Storage& s : g.storages()) {
    if (s.kind == StorageKind::parameter) paths.push_back(s.path);
  }
  return paths;
}

std::vector<std::string> nodes(const ir::Graph& g) {
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
  CHECK_FALSE(g.data().storage(*g.data().find_storage("a/dense/weight")).trainable);
  CHECK(g.data().storage(*g.data().find_storage("ab/dense/weight")).trainable);
  g.thaw("a/dense/weight");
  CHECK(g.data().storage(*g.data().find_storage("a/dense/weight")).trainable);
}

TEST_CASE("globs freeze, thaw and give rates; the last call that names a parameter counts") {
  Graph g("g");
  g.input("x", f32, {4}).scope("tower", [](Value h) { return h.repeat(2, dense); }).through(dense);
  const auto of = [&](const char* path) { return g.data().storage(*g.data().find_storage(path)); };
  g.freeze("tower/*/dense");
  g.thaw("**/1");
  CHECK_FALSE(of("tower/0/dense/weight").trainable);
  CHECK(of("tower/1/dense/weight").trainable);
  CHECK(of("dense/weight").trainable);
  g.scale_learning_rate("**/weight", 0.5);
  g.scale_learning_rate("tower", 0.1);
  g.scale_learning_rate("tower/1", 2);
  CHECK(of("tower/0/dense/weight").rate == 0.1);
  CHECK(of("tower/1/dense/weight").rate == 2);
  CHECK(of("dense/weight").rate == 0.5);
  g.scale_weight_decay("tower/*", 0);
  g.scale_weight_decay("tower/1", 3);
  CHECK(of("tower/0/dense/weight").decay == 0);
  CHECK(of("tower/1/dense/weight").decay == 3);
  CHECK(of("dense/weight").decay == 1);
}

TEST_CASE("unroll has one set of weights, a node for each step, and feeds its last state") {
  Graph g("g");
  const Value s = g.state("s", floats(4));
  const auto cell = [](Value h, int step) {
    const Value next = h.through(dense);
    return Unrolled{next, scale(next, step)};
  };
  const Values ys = g.unroll(2, s, cell);
  CHECK(parameters(g) == Paths{"unroll/dense/weight"});
  CHECK(nodes(g) == Paths{"unroll/0/dense", "unroll/0/scale", "unroll/1/dense", "unroll/1/scale"});
  CHECK(ys.size() == 2);
  CHECK(ys[0].node().path == "unroll/0/scale");
  CHECK(ys[1].node().path == "unroll/1/scale");
  REQUIRE(g.data().assignments().size() == 1);
  CHECK(g.data().node(g.data().assignments()[0].value).path == "unroll/1/dense");
  CHECK(g.data().storage(g.data().assignments()[0].storage).path == "s");
}

TEST_CASE("in a named scope unroll keeps its word, as a loop does") {
  Graph g("g");
  g.input("x", f32, {4}).scope("cell", [&](Value) {
    return g.unroll(2, g.state("s", floats(4)),
                    [](Value h, int) { return Unrolled{h.through(dense), h}; })[1];
  });
  CHECK(parameters(g) == Paths{"cell/unroll/dense/weight"});
}

TEST_CASE("a shared layer beside repeated ones") {
  Graph g("g");
  const Layer tower = shared([](Value h) { return h.repeat(2, dense); });
  g.input("x", f32, {4}).repeat(2, [&](Value h) { return h.through(tower).through(dense); });
  CHECK(parameters(g) == Paths{"repeat/0/shared/repeat/0/dense/weight",
                               "repeat/0/shared/repeat/1/dense/weight", "repeat/0/dense/weight",
                               "repeat/1/dense/weight"});
  CHECK(nodes(g) == Paths{"repeat/0/shared/repeat/0/dense", "repeat/0/shared/repeat/1/dense",
                          "repeat/0/dense", "repeat/1/shared/repeat/0/dense",
                          "repeat/1/shared/repeat/1/dense", "repeat/1/dense"});
}

TEST_CASE("unrelated edits of every kind keep the paths of a named scope") {
  const auto declare = [](int edit) {
    Graph g("g");
    Value x = g.input("x", f32, {4});
    const Layer once = shared(dense);
    if (edit == 1) x = x.repeat(2, dense);
    if (edit == 2) x = x.loop(dense).times(2);
    if (edit == 3) x = x.split(dense, dense).merge([](const Values& v) { return v[1]; });
    if (edit == 4) x = x.through(once).through(once);
    if (edit == 5) x = x.scope("other", dense);
    x = x.scope("model", [](Value h) {
      h = h.through(dense).repeat(2, dense).loop(dense).times(2);
      return h.split(dense, shared(dense)).merge([](const Values& v) { return v[0]; });
    });
    if (edit == 6) x.through(dense);
    Paths paths = parameters(g);
    std::erase_if(paths, [](const std::string& path) { return !path.starts_with("model/"); });
    return paths;
  };
  const Paths paths = declare(0);
  CHECK(paths == Paths{"model/dense/weight", "model/0/dense/weight", "model/1/dense/weight",
                       "model/loop/dense/weight", "model/split/0/dense/weight",
                       "model/split/1/shared/dense/weight"});
  for (int edit = 1; edit <= 6; ++edit) CHECK(declare(edit) == paths);
}

TEST_CASE("a buffer is threaded: each use takes what the previous one left") {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  const auto use = [&](Value h) {
    const Buffer b = make_buffer(h.emitter(), "count", Type{f32, {}}, {}, Line::here());
    assign(h.emitter(), b, plus(b.value, h), Line::here());
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
}  // namespace metronome::testing::paths_test
