// Refused declarations, each with its whole message: sizes, numbers, initial values, paths.
#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "graph/plan/uses.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::declared_test {
namespace {

TEST_CASE("sizes that no memory has") {
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  CHECK(mistake_of([](Graph& g) { g.input("x", f32, {huge}, at(1)); }) ==
        "tower.cc:1: input \"x\" cannot be made\n"
        "  requires   a value of at most 128 TiB, 140737488355328 bytes, but "
        "f32[4611686018427387904] takes 1.84e+19");
  CHECK(mistake_of([](Graph& g) {
          g.parameter("w", Type{f64, {1 << 30, 0, 1 << 30, 1 << 30}}, {}, at(1));
        }) ==
        "tower.cc:1: parameter \"w\" cannot be made\n"
        "  requires   a value of at most 128 TiB, 140737488355328 bytes, but "
        "f64[1073741824, 0, 1073741824, 1073741824] takes 9.9e+27");
  CHECK(mistake_of([](Graph& g) { g.constant({1, 2}, Type{f32, {-2, -1}}, at(1)); }) ==
        "tower.cc:1: constant cannot be made\n"
        "  requires   sizes of 0 or more, but [-2, -1]");
  CHECK(mistake_of([](Graph& g) { apply(Blend{{bool_, {huge, 4}}}, {vector(g)}, at(2)); }) ==
        "tower.cc:2: blend cannot join the graph as \"blend\"\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a value of at most 128 TiB, 140737488355328 bytes, but "
        "bool[4611686018427387904, 4] takes 1.84e+19");
  CHECK(mistakes([](Graph& g) { g.input("x", bool_, {1LL << 47}, at(1)); }).empty());
  CHECK(mistakes([](Graph& g) { g.input("x", bool_, {(1LL << 47) + 1}, at(1)); }).size() == 1);
}

TEST_CASE("values that no memory holds together") {
  Graph g("g");
  Value x = g.input("x", bool_, {1LL << 47}, at(1));
  for (int i = 0; i < 1 << 15; ++i) x = scale(x, 2, at(2));
  CHECK_THROWS_WITH_AS(plan::uses_of(g, 64),
                       "graph \"g\" cannot be planned\n"
                       "  requires   values of at most 2^62 bytes together, but up to "
                       "\"scale_32767\" (tower.cc:2), number 32769 of 32769, they have more",
                       GraphError);
}

TEST_CASE("numbers that an element type cannot hold") {
  const auto constant = [](double number, Element element) {
    return mistake_of([&](Graph& g) { g.constant(number, element, at(1)); });
  };
  const std::string begin = "tower.cc:1: constant cannot be made\n  requires   ";
  CHECK(constant(1.5, i64) == begin + "a whole number that i64 can hold, but 1.5");
  CHECK(constant(1e30, i64) == begin + "a whole number that i64 can hold, but 1e+30");
  CHECK(constant(2147483648.0, i32) == begin + "a whole number that i32 can hold, but 2147483648");
  CHECK(constant(NAN, i32) == begin + "a whole number that i32 can hold, but nan");
  CHECK(constant(2, bool_) == begin + "0 or 1 for bool, but 2");
  CHECK(constant(1e300, f32) == begin + "a number that f32 can hold, but 1e+300");
  CHECK(mistake_of([](Graph& g) { g.constant({1, 2.5}, Type{i32, {2}}, at(1)); }) ==
        begin + "a whole number that i32 can hold, but 2.5, which is number 1");
  CHECK(mistakes([](Graph& g) {
          g.constant(-2147483648.0, i32);
          g.constant(-INFINITY, f32);
          g.constant(FLT_MAX, f32);
          g.constant(1, bool_);
        }).empty());
}

TEST_CASE("initial values that a storage cannot begin as") {
  const auto begun = [](Init init, Element element = f32) {
    return mistake_of([&](Graph& g) { g.buffer("b", Type{element, {2}}, std::move(init), at(1)); });
  };
  const auto uniform = [](double low, double high) {
    return Init{Init::Kind::uniform, low, high, {}};
  };
  const auto normal = [](double mean, double deviation) {
    return Init{Init::Kind::normal, mean, deviation, {}};
  };
  const std::string begin = "tower.cc:1: buffer \"b\" cannot be made\n  requires   ";
  const std::string bounds =
      begin + "a finite lower bound for f32, and an upper one that is not below it, but ";
  CHECK(begun(uniform(1, -1)) == bounds + "1 and -1");
  CHECK(begun(uniform(0, NAN)) == bounds + "0 and nan");
  CHECK(begun(uniform(-INFINITY, 0)) == bounds + "-inf and 0");
  CHECK(begun(uniform(-1e300, 1)) == bounds + "-1e+300 and 1");
  CHECK(begun(normal(0, -1)) ==
        begin + "a finite deviation of 0 or more that f32 can hold, but -1");
  CHECK(begun(normal(NAN, 1)) == begin + "a finite mean that f32 can hold, but nan");
  CHECK(begun(normal(0, 1), i32) == begin + "a floating element type for normal(0, 1), but i32[2]");
  CHECK(begun({Init::Kind::constant, 0.5, 0, {}}, i32) ==
        begin + "a whole number that i32 can hold, but 0.5");
  CHECK(begun({Init::Kind::constant, NAN, 0, {}}) == begin + "a number, but nan");
  CHECK(begun({Init::Kind::values, 0, 0, {0, 3}}, bool_) ==
        begin + "0 or 1 for bool, but 3, which is value 1");
  Init made{};
  made.wrong = "a fan_in of 1 or more for kaiming_uniform, but 0";
  CHECK(begun(made) == begin + "a fan_in of 1 or more for kaiming_uniform, but 0");
  // A running minimum begins as an infinity, what is trained does not.
  CHECK(mistakes([](Graph& g) {
          g.buffer("b", Type{f32, {}}, {Init::Kind::constant, INFINITY, 0, {}});
        }).empty());
  CHECK(mistake_of([](Graph& g) {
          g.parameter("w", Type{f32, {}}, {Init::Kind::constant, INFINITY, 0, {}}, at(1));
        }) ==
        "tower.cc:1: parameter \"w\" cannot be made\n"
        "  requires   a finite number for what is trained, but inf");
}

TEST_CASE("paths that are Metronome's own") {
  const auto named = [](std::string name) {
    return mistake_of([&](Graph& g) { g.parameter(name, Type{f32, {}}, {}, at(1)); });
  };
  CHECK(named("optimizer/exp_avg/w") ==
        "tower.cc:1: parameter \"optimizer/exp_avg/w\" cannot be made\n"
        "  requires   a path outside of \"optimizer\", where the optimizer's moments lie\n"
        "  way out    give it another name, or its scope");
  CHECK(named("update") ==
        "tower.cc:1: parameter \"update\" cannot be made\n"
        "  requires   a path of its own, but \"update\" is a counter of Metronome's\n"
        "  way out    give it another name, or a scope");
  CHECK(named("__metadata__") ==
        "tower.cc:1: parameter \"__metadata__\" cannot be made\n"
        "  requires   a path of its own, but checkpoints keep \"__metadata__\" for themselves\n"
        "  way out    give it another name, or a scope");
  CHECK(mistake_of([](Graph& g) {
          vector(g).scope("optimizer", [](Value h) { return scale(h, 2); }, at(2));
        }) ==
        "tower.cc:2: scope(\"optimizer\") cannot be opened\n"
        "  operand 0  f32[4]  \"x\"  tower.cc:1\n"
        "  requires   a path outside of \"optimizer\", where the optimizer's moments lie\n"
        "  way out    give it another name, or its scope");
  CHECK(mistakes([](Graph& g) {
          const Layer layer = [](Value h) {
            return plus(h, make_parameter(h.emitter(), "seed", h.type(), {}, at(2)));
          };
          const Layer inner = [&](Value h) { return h.scope("optimizer", layer); };
          vector(g).scope("optimizers", inner);
        }).empty());
  CHECK(mistake_of([](Graph& g) {
          const Value w = g.parameter("w", Type{f32, {}}, {}, at(2));
          g.output("loss", w, at(3));
          g.minimize(w, Descent{}, at(4));
        }) ==
        "tower.cc:4: minimize cannot take the loss\n"
        "  operand 0  f32[]  \"w\"  tower.cc:2\n"
        "  requires   the name \"loss\" for what is minimised, but it names another value");
}

}  // namespace
}  // namespace metronome::testing::declared_test
