// Fusing as pictures, on ops of the tests' own; and on random graphs: each value is still made by
// the same expression.
#include "graph/passes/fuse.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/compounds/group.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/passes/materialize.h"
#include "graph/passes/prune.h"
#include "graph/rules/fusion.h"
#include "tests/graph/after.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::fuse_test {
namespace {

/// A function of each element of its operands, broadcast as in NumPy. May be written over any.
struct Map {
  static constexpr std::string_view name = "map";
  static constexpr bool differentiable = false;
  std::string function = "f";
  bool operator==(const Map&) const = default;
  std::string attributes() const { return function; }
  Types infer(std::span<const Type> in) const {
    Type result = in[0];
    for (const Type& type : in) result.shape = broadcast(result.shape, type.shape);
    return {result};
  }
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
};

/// Operand 0 divided by what is saved, its norm. May be written over it.
struct Unit {
  static constexpr std::string_view name = "unit";
  static constexpr bool differentiable = false;
  static constexpr int saved = 1;
  bool operator==(const Unit&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0], Type{in[0].element, {}}}; }
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0}, {0}};
  }
};

Value map(std::initializer_list<Value> in, std::string function = "f") {
  return apply(Map{std::move(function)}, in, Line::here());
}
Value total(Value x) { return apply(Total{}, {x}, Line::here()); }

Settings fusing() {
  Settings settings;
  settings.fuse.takes = [](const Op&) { return true; };
  return settings;
}

std::string fused(const ir::Graph& graph) { return after(passes::fuse, graph, fusing()); }

/// Returns which results the first group of a fused graph may write over which operands.
std::vector<std::pair<int, int>> rights(const ir::Graph& graph) {
  const ir::Graph after = passes::fuse(graph, fusing());
  std::vector<std::pair<int, int>> result;
  for (const Node& node : after.nodes()) {
    if (node.op->as<Group>() == nullptr) continue;
    for (const InPlace& right : node.op->in_place()) result.emplace_back(right.output, right.input);
    break;
  }
  return result;
}
using Rights = std::vector<std::pair<int, int>>;

TEST_CASE("a chain of maps is one group; what is read outside leaves it") {
  Graph g("g");
  const Value x = g.input("x", f32, {2, 3}), row = g.input("row", f32, {3});
  const Value a = map({x, row}, "a"), b = map({a}, "b"), c = map({b, a}, "c");
  g.output("b", b);
  g.output("c", c);
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2, 3]\n"
        "  %1 = input row : f32[3]\n"
        "  %2, %2.1 = group(%0, %1) {map(a) map(b) map(c)} : f32[2, 3], f32[2, 3]  \"map_2\"\n"
        "  \"b\" is %2\n"
        "  \"c\" is %2.1\n");
  CHECK(rights(g) == Rights{{0, 0}, {1, 0}});  // the row is read again for every element
}

TEST_CASE("without ops that the target fuses, or where nodes stay apart, nothing changes") {
  Graph g("g");
  const Value x = g.input("x", f32, {2});
  g.output("y", map({map({x})}));
  CHECK(passes::fuse(g, {}).print() == g.print());
  Settings none = fusing();
  none.fuse.takes = [](const Op&) { return false; };
  CHECK(passes::fuse(g, none).print() == g.print());
  Settings apart = fusing();
  apart.fuse.apart = true;
  CHECK(passes::fuse(g, apart).print() == g.print());
}

TEST_CASE("a value that leaves and comes back keeps two groups apart") {
  Graph g("g");
  const Value x = g.input("x", f32, {2});
  const Value a = map({x}, "a"), blended = node(g, "blend", Blend{floats(2)}, {a});
  g.output("y", map({a, blended}, "b"));
  CHECK(fused(g) == g.print());
}

TEST_CASE("a view is no member: it leaves") {
  Graph g("g");
  const Value x = g.input("x", f32, {2});
  const Value a = map({x}, "a");
  g.output("y", map({a, head(a, 0, 2)}, "b"));
  CHECK(fused(g) == g.print());
}

TEST_CASE("domains and guards keep groups apart") {
  Graph g("g");
  const Value x = g.input("x", f32, {3}), go = g.input("go", bool_, {});
  const Value a = map({x}, "a");
  g.output("wide", map({a, g.input("w", f32, {2, 3})}, "b"));
  Node guarded{make_op(Map{"c"}), {a.id()}, {}, "c", Line{}, go.id()};
  g.output("guarded", or_zero(g, "guarded", go, g.value(g.emitter().graph.append(guarded))));
  CHECK(fused(g) == g.print());
}

TEST_CASE("constants become members; those that nobody else reads are gone") {
  Graph g("g");
  const Value x = g.input("x", f32, {2});
  const Value two = g.constant(2, f32), three = g.constant(3, f32);
  g.output("y", map({x, two}));
  g.output("three", three);
  g.output("z", map({x, three}));
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2]\n"
        "  %1 = fill() {3} : f32[]  \"constant_1\"\n"
        "  %2, %2.1 = group(%0) {map(f) map(f)} : f32[2], f32[2]  \"map_1\"\n"
        "  \"y\" is %2\n"
        "  \"three\" is %1\n"
        "  \"z\" is %2.1\n");
}

TEST_CASE("maps join the reduction that they feed, and those behind it") {
  Graph g("g");
  const Value x = g.input("x", f32, {2, 3});
  const Value a = map({x}, "a");
  const Value unit = node(g, "unit", Unit{}, {a});
  g.output("y", map({unit, a}, "b"));
  g.output("norm", output(g, unit, 1));
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2, 3]\n"
        "  %1, %1.1 = group(%0) {map(a) unit map(b)} : f32[], f32[2, 3]  \"unit\"\n"
        "  \"y\" is %1.1\n"
        "  \"norm\" is %1\n");
  CHECK(rights(g) == Rights{{1, 0}});
}

TEST_CASE("what is made before a reduction may not lie over what it reads again") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value a = map({x}, "a");
  g.output("a", a);
  g.output("y", node(g, "unit", Unit{}, {a}));
  CHECK(rights(g) == Rights{{1, 0}});  // the unit over x, after its last use; `a` over nothing
}

TEST_CASE("one reduction to a group, and what it makes of the whole is read outside") {
  Graph g("g");
  const Value x = g.input("x", f32, {4});
  const Value a = map({x}, "a");
  const Value sum = total(a);
  g.output("again", total(map({a, sum}, "b")));
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1, %1.1 = group(%0) {map(a) total} : f32[4], f32[]  \"total\"\n"
        "  %2 = group(%1, %1.1) {map(b) total} : f32[]  \"total_1\"\n"
        "  \"again\" is %2\n");
}

TEST_CASE("an operand that a reduction does not walk over comes from outside") {
  Graph g("g");
  const Value x = g.input("x", f32, {4}), y = g.input("y", f32, {4});
  g.output("sum", apply(Total{}, {x, map({y})}, Line::here()));
  CHECK(fused(g) == g.print());
}

TEST_CASE("groups that read the same elements load them once; numbers are all one kernel") {
  Graph g("g");
  const Value x = g.input("x", f32, {4}), p = g.input("p", f32, {}), q = g.input("q", f32, {});
  g.output("a", map({x}, "a"));
  g.output("b", map({x}, "b"));
  g.output("c", map({p}, "c"));
  g.output("d", map({q}, "d"));
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[4]\n"
        "  %1 = input p : f32[]\n"
        "  %2 = input q : f32[]\n"
        "  %3, %3.1 = group(%0) {map(a) map(b)} : f32[4], f32[4]  \"map_1\"\n"
        "  %4, %4.1 = group(%1, %2) {map(c) map(d)} : f32[], f32[]  \"map_3\"\n"
        "  \"a\" is %3\n"
        "  \"b\" is %3.1\n"
        "  \"c\" is %4\n"
        "  \"d\" is %4.1\n");
}

TEST_CASE("columns are read, and written, where they lie") {
  Graph g("g");
  const Value x = g.input("x", f32, {2, 6}), y = g.input("y", f32, {2, 3});
  const Value a = map({columns(x, 0, 3)}, "a"), b = map({columns(x, 3, 3), y}, "b");
  g.output("beside", apply(Beside{}, {b, a}, Line::here()));
  g.output("c", map({a, b}, "c"));
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2, 6]\n"
        "  %1 = input y : f32[2, 3]\n"
        "  %2, %2.1 = group(%0, %1) {columns(0:3) map(a) columns(3:6) map(b) beside map(c)} : "
        "f32[2, 6], f32[2, 3]  \"map_2\"\n"
        "  \"beside\" is %2\n"
        "  \"c\" is %2.1\n");
  CHECK(rights(g) == Rights{{1, 1}});  // of x columns are read that belong to other elements
}

TEST_CASE("each reader reads columns for itself, broadcast or not") {
  Graph g("g");
  const Value x = g.input("x", f32, {2, 6}), y = g.input("y", f32, {2, 3});
  const Value column = columns(x, 4, 1);
  const Value a = map({y, column}, "a"), blended = node(g, "blend", Blend{y.type()}, {a});
  g.output("b", map({blended, column, column}, "b"));
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2, 6]\n"
        "  %1 = input y : f32[2, 3]\n"
        "  %2 = group(%1, %0) {columns(4:5) map(a)} : f32[2, 3]  \"map\"\n"
        "  %3 = blend(%2) {f32[2, 3]} : f32[2, 3]  \"blend\"\n"
        "  %4 = group(%3, %0) {columns(4:5) map(b)} : f32[2, 3]  \"map_1\"\n"
        "  \"b\" is %4\n");
}

TEST_CASE("columns of what a group makes are read from memory") {
  Graph g("g");
  const Value x = g.input("x", f32, {2, 2}), made = map({x}, "a");
  const Value all = apply(Beside{}, {made, made}, Line::here());
  g.output("y", map({columns(all, 1, 2), made}, "b"));
  CHECK(fused(g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[2, 2]\n"
        "  %1, %1.1 = group(%0) {map(a) beside} : f32[2, 2], f32[2, 4]  \"beside\"\n"
        "  %2 = group(%1.1, %1) {columns(1:3) map(b)} : f32[2, 2]  \"map_1\"\n"
        "  \"y\" is %2\n");
}

TEST_CASE("columns that somebody needs as they are stay") {
  Graph g("g");
  const Value x = g.input("x", f32, {2, 6});
  const Value part = columns(x, 0, 3);
  SUBCASE("the user") { g.output("part", part); }
  SUBCASE("an op that does not fuse") {
    g.output("blend", node(g, "blend", Blend{part.type()}, {part}));
  }
  SUBCASE("a reduction that reads them as a whole") {
    g.output("total", apply(Total{}, {x, part}, Line::here()));
  }
  SUBCASE("one that runs under a guard") {
    const Value go = g.input("go", bool_, {});
    g.output("z", or_zero(g, "z", go, node_under(g, go, "g", Map{"g"}, {part})));
  }
  SUBCASE("one that waits for them") {
    g.output("late", node(g, "late", Map{"l"}, {g.input("y", f32, {4})}, {}, {part}));
  }
  g.output("y", map({part}));
  CHECK(fused(g) == g.print());
}

TEST_CASE("a kernel takes no more addresses than its arguments hold") {
  Graph g("g");
  Value sum = g.input("x", f32, {4});
  for (int i = 0; i < 60; ++i) sum = map({sum, g.input(fmt::format("x{}", i), f32, {4})});
  g.output("sum", sum);
  const ir::Graph after = passes::fuse(g, fusing());
  int groups = 0;
  for (const Node& n : after.nodes()) {
    if (n.op->as<Group>() == nullptr) continue;
    ++groups;
    CHECK(n.inputs.size() + n.types.size() <= 32);
  }
  CHECK(groups == 2);
}

TEST_CASE("a group says what is wrong with it") {
  const Types in = {Type{f32, {4}}};
  Group group;
  group.domain = {4};
  group.inputs = in;
  group.members.push_back({make_op(Map{}), {{-1, 0}}, in});
  group.outputs = {{0, 0}};
  CHECK(group.infer(in) == in);
  const auto wrong = [&](const std::function<void(Group&)>& change) {
    Group changed = group;
    change(changed);
    return requirement([&] { changed.infer(in); });
  };
  CHECK(wrong([](Group& g) { g.inputs[0].element = f64; }) == "the operands that it was made for");
  CHECK(wrong([](Group& g) { g.members[0].inputs[0] = {0, 0}; }) ==
        "members that read operands or earlier members");
  CHECK(wrong([](Group& g) { g.members[0].types[0].element = f64; }) == "the types of map's rule");
  CHECK(wrong([](Group& g) { g.domain = {2, 4}; }) == "one result of [2, 4] from map");
  CHECK(wrong([](Group& g) { g.outputs[0] = {-1, 0}; }) == "results of members");
  CHECK(wrong([](Group& g) {
          g.members.push_back({make_op(Total{}), {{0, 0}}, {Type{f32, {}}}});
          g.members.push_back({make_op(Map{}), {{0, 0}, {1, 0}}, {Type{f32, {4}}}});
        }) == "operand 1 of map element by element of [4]");

  const Types wide = {Type{f32, {2, 4}}}, narrow = {Type{f32, {2, 2}}};
  const auto refused = [&](std::vector<Group::Member> members) {
    Group of{.domain = {2, 2}, .inputs = wide, .members = std::move(members), .outputs = {}};
    of.outputs = {{static_cast<int>(of.members.size()) - 1, 0}};
    return requirement([&] { of.infer(wide); });
  };
  const Group::Member slice = {make_op(Columns{0, 2}), {{-1, 0}}, narrow};
  CHECK(refused({slice}) == "results of members");
  CHECK(refused({{make_op(Columns{0, 3}), {{-1, 0}}, {Type{f32, {2, 3}}}}, slice}) ==
        "one result of [2, 2] from columns");
  CHECK(refused({slice, {make_op(Columns{0, 2}), {{0, 0}}, narrow}}) ==
        "operand 0 of columns element by element of [2, 2]");
  CHECK(refused({slice, {make_op(Beside{}), {{-1, 0}}, wide}}) ==
        "operand 0 of beside element by element of [2, 2]");
}

// ---- random graphs ---------------------------------------------------------------------------

class Random {
 public:
  explicit Random(std::uint32_t seed) : random_(seed) {}

  ir::Graph make(int nodes) {
    Graph g("random");
    const Value go = g.input("go", bool_, {});
    for (const Shape& shape : {Shape{}, Shape{4}, Shape{3, 4}, Shape{3, 4}}) {
      values_.push_back(g.input(fmt::format("x{}", values_.size()), f32, shape));
    }
    for (const double number : {1.0, 2.0}) values_.push_back(g.constant(number, f32));
    for (int i = 0; i < nodes; ++i) add(g, fmt::format("n{}", i), go);
    for (int i = 0; i < 5; ++i) {
      g.output(fmt::format("y{}", i), values_[values_.size() - 1 - below(values_.size() / 2)]);
    }
    return passes::prune(passes::materialize(g, {}), {});
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  Value recent() {
    return values_[values_.size() - 1 - below(std::min<std::size_t>(values_.size(), 9))];
  }

  void add(Graph& g, const std::string& path, Value go) {
    const Value x = recent(), y = recent();
    switch (below(12)) {
      case 10:
      case 11:
        if (x.rank() == 2 && y.rank() == 2) {
          const auto half = [&](const Value& of, const std::string& name) {
            const Columns columns{static_cast<std::int64_t>(below(3)), 2};
            const Value part = node(g, path + name, columns, {of});
            return below(2) == 0 ? part : node(g, path + name + "/map", Map{}, {part});
          };
          values_.push_back(node(g, path, Beside{}, {half(x, "/a"), half(y, "/b")}));
        }
        return;
      case 0:
        return values_.push_back(node(g, path, Blend{x.type()}, {x, y}));
      case 1:
        if (x.rank() > 0) values_.push_back(node(g, path, Head{0, x.size(0)}, {x}));
        return;
      case 2:
        return values_.push_back(node(g, path, Total{}, {x, y}));
      case 3: {
        const Value unit = node(g, path, Unit{}, {x});
        values_.push_back(unit);
        if (below(2) == 0) values_.push_back(output(g, unit, 1));
        return;
      }
      case 4: {
        // Nothing reads it but a readable: what a guard leaves behind is not for others.
        Node guarded{make_op(Map{"g"}), {x.id(), y.id()}, {}, path, Line{}, go.id()};
        const Value made = g.value(g.emitter().graph.append(guarded));
        if (below(4) == 0) g.output(path, or_zero(g, path, go, made));
        return;
      }
      default:
        return values_.push_back(node(g, path, Map{std::string(1, "abc"[below(3)])}, {x, y}));
    }
  }

  std::mt19937 random_;
  std::vector<Value> values_;
};

/// Numbers for expressions: two values have the same one if they are made in the same way. The
/// same object must see both graphs.
class Expressions {
 public:
  int of(const ir::Graph& graph, ValueId id) {
    const auto key = std::make_pair(&graph, id);
    if (const auto known = seen_.find(key); known != seen_.end()) return known->second;
    const Node& node = graph.node(id);
    std::vector<int> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(of(graph, input));
    const int guard = node.guard.present() ? of(graph, node.guard) : -1;
    const Group* group = node.op->as<Group>();
    return seen_[key] = group == nullptr ? made(*node.op, inputs, guard, id.output)
                                         : of(*group, group->outputs[id.output], inputs, guard);
  }

 private:
  int of(const Group& group, const Group::Source& source, const std::vector<int>& operands,
         int guard) {
    if (source.member < 0) return operands[source.index];
    const Group::Member& member = group.members[source.member];
    std::vector<int> inputs;
    for (const Group::Source& s : member.inputs) inputs.push_back(of(group, s, operands, guard));
    return made(*member.op, inputs, guard, source.index);
  }
  int made(const Op& op, const std::vector<int>& inputs, int guard, int output) {
    // A constant is its number, whatever its shape.
    const Fill* fill = op.as<Fill>();
    const std::string text = fill != nullptr
                                 ? fmt::format("{}", fill->number)
                                 : fmt::format("{} {} ({}) {} {}", op.name(), op.attributes(),
                                               fmt::join(inputs, ", "), guard, output);
    return numbers_.emplace(text, static_cast<int>(numbers_.size())).first->second;
  }

  std::map<std::pair<const ir::Graph*, ValueId>, int> seen_;
  std::map<std::string, int> numbers_;
};

TEST_CASE("random graphs: every value that is kept is made in the same way") {
  int groups = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const ir::Graph before = Random(seed).make(40);
    const ir::Graph after = graph_after(passes::fuse, before, fusing());
    CHECK(passes::fuse(before, fusing()).print() == after.print());
    Expressions expressions;
    REQUIRE(after.readables().size() == before.readables().size());
    for (std::size_t i = 0; i < after.readables().size(); ++i) {
      CHECK(expressions.of(after, after.readables()[i].value) ==
            expressions.of(before, before.readables()[i].value));
    }
    for (const Node& node : after.nodes()) groups += node.op->as<Group>() != nullptr;
  }
  CHECK(groups > 1000);
}

}  // namespace
}  // namespace metronome::testing::fuse_test
