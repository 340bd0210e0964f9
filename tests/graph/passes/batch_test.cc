// Updates that run as one node: the printed graph after the pass, and what it keeps.
#include "graph/compounds/batch.h"
#include "graph/passes/batch.h"
#include "graph/plan/schedules.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "graph/compounds/group.h"
#include "graph/emit/emitter.h"
#include "graph/plan/schedule.h"
#include "graph/rules/batch.h"
#include "tests/graph/after.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::batch_test {
namespace {

/// (parameter, gradient, moment, rate) to the next parameter and moment, each over its old value.
struct Update {
  static constexpr std::string_view name = "update";
  static constexpr bool differentiable = false;
  static constexpr bool batches = true;
  double decay = 0;
  bool operator==(const Update&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0], in[2]}; }
  std::vector<InPlace> in_place() const { return {{0, 0}, {1, 2}}; }
};

/// Parameters w0, w1, ... and moments m0, ... of these sizes, their updates and assignments. The
/// gradients are made in the order of `ready`, or the last parameter's first, as a backward pass
/// does.
Graph step(std::vector<std::int64_t> sizes, std::vector<double> decays = {},
           std::vector<int> ready = {}) {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  const Value rate = g.input("rate", f64, {});
  Values parameters, moments, gradients(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parameters.push_back(g.parameter(fmt::format("w{}", i), floats(sizes[i]), {}));
    moments.push_back(g.parameter(fmt::format("m{}", i), floats(sizes[i]), {}));
  }
  for (int i = static_cast<int>(sizes.size()); ready.size() < sizes.size();) ready.push_back(--i);
  for (const int i : ready) {
    gradients[i] = node(g, fmt::format("g{}", i), Blend{floats(sizes[i])}, {x});
  }
  std::vector<Assignment> assignments;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Value next =
        node(g, fmt::format("optimizer/w{}/update", i), Update{decays.empty() ? 0 : decays[i]},
             {parameters[i], gradients[i], moments[i], rate});
    const auto storage = [&](const char* name) {
      return *g.data().find_storage(fmt::format("{}{}", name, i));
    };
    assignments.push_back({storage("w"), next.id(), Line{}});
    assignments.push_back({storage("m"), output(g, next, 1).id(), Line{}});
  }
  g.emitter().graph.set_assignments(std::move(assignments));
  return g;
}

ir::Graph batched(const ir::Graph& graph, std::size_t buckets) {
  Settings settings;
  settings.buckets = buckets;
  return graph_after(passes::batch, graph, settings);
}

/// Paths of the parameters of each batch, "w1 w0 | w2"; nodes on their own in brackets.
std::string batches_of(const ir::Graph& graph) {
  std::string text;
  for (const Node& n : graph.nodes()) {
    const Batch* batch = n.op->as<Batch>();
    if (batch == nullptr && !n.op->ask<BatchRule>()) continue;
    if (!text.empty()) text += " | ";
    if (batch == nullptr) text += fmt::format("({})", graph.node(n.inputs[0]).path);
    for (int i = 0; batch != nullptr && i < batch->count; ++i) {
      text += (i > 0 ? " " : "") + graph.node(n.inputs[i * batch->inputs]).path.get();
    }
  }
  return text;
}

TEST_CASE("one bucket: one node, and each storage is assigned its own result") {
  CHECK(batched(step({4, 8}), 1).print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = input rate : f64[]\n"
        "  %2 = read w0 : f32[4]\n"
        "  %3 = read m0 : f32[4]\n"
        "  %4 = read w1 : f32[8]\n"
        "  %5 = read m1 : f32[8]\n"
        "  %6 = blend(%0) {f32[8]} : f32[8]  \"g1\"\n"
        "  %7 = blend(%0) {f32[4]} : f32[4]  \"g0\"\n"
        "  %8, %8.1, %8.2, %8.3 = batch(%2, %7, %3, %1, %4, %6, %5, %1) {update x 2} : f32[4], "
        "f32[4], f32[8], "
        "f32[8]  \"optimizer\"\n"
        "  w0 := %8\n"
        "  m0 := %8.1\n"
        "  w1 := %8.2\n"
        "  m1 := %8.3\n");
}

TEST_CASE("no buckets: nothing changes") {
  const ir::Graph g = step({4, 8});
  CHECK(batched(g, 0).print() == g.print());
}

TEST_CASE("buckets of about equal bytes, in the order in which gradients are ready") {
  CHECK(batches_of(batched(step({10, 10, 10, 10}), 2)) == "w0 w1 | w2 w3");
  CHECK(batches_of(batched(step({10, 10, 10, 100}), 2)) == "w0 w1 w2 | (w3)");
  CHECK(batches_of(batched(step({100, 10, 10, 10}), 2)) == "(w0) | w1 w2 w3");
  CHECK(batches_of(batched(step({1, 1, 1, 1, 1, 1}), 3)) == "w0 w1 | w2 w3 | w4 w5");
  CHECK(batches_of(batched(step({0, 0}), 3)) == "w0 w1");
  CHECK(batches_of(batched(step({1, 1, 1, 1}, {}, {0, 2, 3, 1}), 2)) == "w0 w2 | w1 w3");
}

TEST_CASE("an update alone, or in a bucket alone, stays as it is") {
  const ir::Graph one = step({4});
  CHECK(batched(one, 1).print() == one.print());
  const ir::Graph two = step({4, 4});
  CHECK(batched(two, 2).print() == two.print());
}

TEST_CASE("other attributes are other batches") {
  CHECK(batches_of(batched(step({4, 4, 4, 4}, {0, 1, 0, 1}), 1)) == "w0 w2 | w1 w3");
}

TEST_CASE("another guard is another batch") {
  Graph g("g");
  const Value rate = g.input("rate", f64, {}), go = g.input("go", bool_, {});
  for (const ValueId guard : {ValueId{}, go.id(), ValueId{}, go.id()}) {
    const auto w = g.parameter(fmt::format("w{}", g.data().nodes().size()), floats(4), {});
    g.emitter().graph.append(
        Node{make_op(Update{}), {w.id(), w.id(), w.id(), rate.id()}, {}, "u", Line{}, guard});
  }
  const ir::Graph result = batched(g, 1);
  CHECK(batches_of(result) == "w2 w6 | w4 w8");
  CHECK(result.nodes().back().guard == ValueId{1, 0});
}

TEST_CASE("an update that depends on another, directly or not, is not in its batch") {
  Graph g("g");
  const Value rate = g.input("rate", f64, {});
  const auto update = [&](const char* path, Value gradient) {
    return node(g, path, Update{}, {gradient, gradient, gradient, rate});
  };
  const Value a = update("a", g.input("x", f32, {4}));
  SUBCASE("directly") { g.output("y", update("b", a)); }
  SUBCASE("through another node") { g.output("y", update("b", scale(a, 2))); }
  const ir::Graph result = batched(g, 1);
  CHECK(result.print() == g.print());
}

TEST_CASE("a node that reads a result stands behind the batch") {
  Graph g("g");
  const Value rate = g.input("rate", f64, {}), x = g.input("x", f32, {4});
  const Value a = node(g, "a", Update{}, {x, x, x, rate});
  g.output("y", scale(a, 2));
  const Value y = scale(x, 3);
  g.output("z", node(g, "b", Update{}, {y, y, y, rate}));
  CHECK(batched(g, 1).print() ==
        "graph \"g\"\n"
        "  %0 = input rate : f64[]\n"
        "  %1 = input x : f32[4]\n"
        "  %2 = scale(%1) {factor=3} : f32[4]  \"scale_1\"\n"
        "  %3, %3.1, %3.2, %3.3 = batch(%1, %1, %1, %0, %2, %2, %2, %0) {update x 2} : f32[4], "
        "f32[4], f32[4], "
        "f32[4]  \"batch\"\n"
        "  %4 = scale(%3) {factor=2} : f32[4]  \"scale\"\n"
        "  \"y\" is %4\n"
        "  \"z\" is %3.2\n");
}

TEST_CASE("every assignment of a batch can be made in place") {
  const ir::Graph g = batched(step({4, 8, 16}), 2);
  REQUIRE(batches_of(g) == "w0 w1 | (w2)");
  CHECK(plan::schedule(g, {}).in_place == std::vector<bool>(6, true));
}

TEST_CASE("a batch checks its operands") {
  const Batch two{make_op(Update{}), 2, 4, 2};
  const Type w = floats(4), v = floats(8), rate{f64, {}};
  CHECK(two.infer(Types{w, w, w, rate, v, v, v, rate}) == Types{w, w, v, v});
  CHECK(two.in_place().size() == 4);
  CHECK(two.in_place()[3].output == 3);
  CHECK(two.in_place()[3].input == 6);
  CHECK(requirement([&] { two.infer(Types{w, w, w, rate}); }) ==
        "4 operands for each of 2 update, but 4 in all");
}

TEST_CASE("random updates among other nodes: same results are read, same nodes are made") {
  std::mt19937 random(5);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (int round = 0; round < 200; ++round) {
    Graph g("g");
    const Value rate = g.input("rate", f64, {});
    Values values = {g.input("x", f32, {4})};
    std::size_t updates = 0;
    for (std::size_t i = 1 + below(30); i > 0; --i) {
      const Value a = values[below(values.size())], b = values[below(values.size())];
      const std::string path = fmt::format("n{}", i);
      if (below(2) == 0) {
        values.push_back(node(g, path, Update{static_cast<double>(below(2))}, {a, b, a, rate}));
        values.push_back(output(g, values.back(), 1));
        ++updates;
      } else {
        values.push_back(node(g, path, Plus{}, {a, b}));
      }
    }
    g.output("y", values.back());
    const ir::Graph result = batched(g, 1 + below(3));
    std::size_t kept = 0;
    for (const Node& n : result.nodes()) {
      const Batch* batch = n.op->as<Batch>();
      kept += batch != nullptr ? batch->count : n.op->ask<BatchRule>();
    }
    REQUIRE(kept == updates);
  }
}

}  // namespace
}  // namespace metronome::testing::batch_test
