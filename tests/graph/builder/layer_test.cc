// Layers, factories and joins that cannot be called or give nothing: blamed where they are called.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::layer_test {
namespace {

using Function = Value (*)(Value);

const std::string kOperand = "  operand 0  f32[4]  \"x\"  tower.cc:1\n";
const std::string kNotCalled =
    "a layer that can be called, but it is a null pointer or an empty std::function";
const std::string kAbsent =
    "a layer that returns a value, but it returned an absent one (a default-made Value)";

/// A verb that calls `layer`, and where.
struct Call {
  std::string path;
  std::function<void(Value x, const Layer& layer)> verb;
};

const std::vector<Call>& calls() {
  static const std::vector<Call> all = {
      {"", [](Value x, const Layer& f) { x.through(f, at(7)); }},
      {"", [](Value x, const Layer& f) { x.through(rowwise(f), at(7)); }},
      {"shared", [](Value x, const Layer& f) { x.through(shared(f), at(7)); }},
      {"repeat/0", [](Value x, const Layer& f) { x.repeat(3, f, at(7)); }},
      {"split/1", [](Value x, const Layer& f) { x.split(same, f, at(7)); }},
      {"split/0",
       [](Value x, const Layer& f) { x.split(Layers([&](int) { return f; }, 3), at(7)); }},
      {"loop/0", [](Value x, const Layer& f) { x.loop(f).times(2, at(7)); }},
      {"loop/0/condition", [](Value x, const Layer& f) { x.loop(same).while_true(f, 2, at(7)); }},
      {"choose/selector", [](Value x, const Layer& f) { x.choose(f, {same, same}, at(7)); }},
      {"tower", [](Value x, const Layer& f) { x.scope("tower", f, at(7)); }},
      {"tower/0",
       [](Value x, const Layer& f) {
         x.scope("tower", [&](Value h) { return h.repeat(2, f, at(7)); }, at(8));
       }},
  };
  return all;
}

std::string blamed(const Call& call, const std::string& what, const std::string& requires_) {
  return "tower.cc:7: layer" + (call.path.empty() ? "" : " of \"" + call.path + "\"") + what +
         "\n" + kOperand + "  requires   " + requires_;
}

TEST_CASE("a null or empty layer is a mistake of the line that calls it, in every verb") {
  const std::function<Value(Value)> empty;
  const std::function<Value(Value, int)> empty_indexed;
  for (const Call& call : calls()) {
    CAPTURE(call.path);
    const std::string expected = blamed(call, " cannot be called", kNotCalled);
    for (const Layer& layer : {Layer(Function{nullptr}), Layer(empty), Layer(empty_indexed)}) {
      CHECK(mistake_of([&](Graph& g) { call.verb(vector(g), layer); }) == expected);
    }
  }
  const Layer layer = empty;
  CHECK_THROWS_WITH_AS(layer(Value(), at(7)),
                       ("tower.cc:7: a layer cannot be called\n  requires   " + kNotCalled).c_str(),
                       GraphError);
}

TEST_CASE("a layer that returns no value is blamed where it is called, in every verb") {
  for (const Call& call : calls()) {
    CAPTURE(call.path);
    CHECK(mistake_of([&](Graph& g) { call.verb(vector(g), [](Value) { return Value(); }); }) ==
          blamed(call, " gives nothing to go on with", kAbsent));
  }
}

TEST_CASE("so is one that returns a value of another graph, and a poisoned one of it") {
  Graph other("other");
  const Value theirs = other.input("y", f32, {4}, at(2));
  const Value poisoned = plus(theirs, other.input("z", f32, {5}, at(3)), at(4));
  for (const Value& value : {theirs, poisoned}) {
    for (const Call& call : calls()) {
      CAPTURE(call.path);
      CHECK(mistake_of([&](Graph& g) { call.verb(vector(g), [&](Value) { return value; }); }) ==
            blamed(call, " gives nothing to go on with",
                   "a layer that returns a value of \"g\", but it returned one of \"other\""));
    }
    CHECK(mistake_of([&](Graph& g) {
            plus(vector(g), value, at(7));
          }).ends_with("requires   operands of one graph, but of \"g\" and \"other\""));
  }
}

TEST_CASE("a factory that cannot be called") {
  using Factory = Layer (*)(int);
  for (const Layers& layers :
       {Layers(Factory{nullptr}, 2), Layers(std::function<Layer(int)>(), 2)}) {
    CHECK(mistake_of([&](Graph& g) { vector(g).split(layers, at(7)); }) ==
          "tower.cc:7: layer of \"split/0\" cannot be called\n" + kOperand + "  requires   " +
              kNotCalled);
  }
}

TEST_CASE("a join that cannot be called, or gives nothing") {
  const std::function<Value(const Values&)> empty;
  const auto joined = [](const Join& how) {
    return mistake_of([&](Graph& g) { vector(g).split(same, same, at(6)).merge(how, at(7)); });
  };
  const std::string operands = kOperand + "  operand 1  f32[4]  \"x\"  tower.cc:1\n";
  CHECK(joined(empty) ==
        "tower.cc:7: join cannot be called\n" + operands +
            "  requires   a join that can be called, but it is a null pointer or an empty "
            "std::function");
  CHECK(joined([](const Values&) { return Value(); }) ==
        "tower.cc:7: join gives nothing to go on with\n" + operands +
            "  requires   a join that returns a value, but it returned an absent one (a "
            "default-made Value)");
}

TEST_CASE("more copies than a graph can hold") {
  CHECK(mistake_of([](Graph& g) { vector(g).repeat(std::int64_t{1} << 62, same, at(7)); }) ==
        "tower.cc:7: repeat cannot make 4611686018427387904 copies\n" + kOperand +
            "  requires   1000000 copies or fewer, but 4611686018427387904");
  CHECK(mistake_of([](Graph& g) {
          vector(g).split(Layers([](int) { return Layer(same); }, 2'000'000), at(7));
        }) == "tower.cc:7: split cannot make branches\n" + kOperand +
                  "  requires   1 to 1000000 branches, but 2000000");
}

}  // namespace
}  // namespace metronome::testing::layer_test
