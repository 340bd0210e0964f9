// Optimizers of the user's own that do not keep to their contract: whole messages.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "graph/passes/for_mode.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "tests/error_of.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::update_test {
namespace {

using tests::error_of;

/// An optimizer made of functions.
struct Own {
  static constexpr std::string_view name = "own";
  using Update = std::function<Values(Value parameter, Value gradient, Values slots)>;
  Update step;
  std::vector<Moment> kept_moments = {};
  std::function<Values(const Values&)> clipping = [](const Values& g) { return g; };

  std::string attributes() const { return ""; }
  std::vector<Moment> moments() const { return kept_moments; }
  Values clip(const Values& gradients) const { return clipping(gradients); }
  Values scalars(Value, double) const { return {}; }
  Values update(Value p, Value g, std::span<const Value> s, std::span<const Value>) const {
    return step(p, g, Values(s.begin(), s.end()));
  }
};

/// Returns the refusal to train one parameter "tower/w" by `optimizer` from line 7, or "nothing".
std::string refused(const Own& optimizer) {
  Graph g("g");
  const Value w = g.parameter("tower/w", Type{f32, {}}, {}, at(2));
  g.minimize(scale(w, 2, at(3)), optimizer, at(7));
  g.validate();
  return error_of<GraphError>(
      [&] { passes::update(passes::differentiate(passes::for_mode(g, {}), {}), {}); });
}

Values plain(Value p, Value g, Values) { return {plus(p, g)}; }

TEST_CASE("an optimizer that keeps to its contract") {
  CHECK(refused({.step = plain}) == "nothing");
  CHECK(refused({.step = [](Value p, Value g, Values s) { return Values{plus(p, s[0]), g}; },
                 .kept_moments = {{"velocity", {}}}}) == "nothing");
}

TEST_CASE("another number of updates than of parameter and moments") {
  const std::string begin = "tower.cc:7: own cannot update parameter \"tower/w\"\n  requires   ";
  CHECK(refused({.step = [](Value, Value, Values) { return Values{}; }}) ==
        begin + "its next value and those of 0 moments, 1 in all, but 0");
  CHECK(refused({.step = plain, .kept_moments = {{"velocity", {}}}}) ==
        begin + "its next value and those of 1 moments, 2 in all, but 1");
  CHECK(refused({.step = [](Value p, Value g, Values) { return Values{p, g, g}; },
                 .kept_moments = {{"velocity", {}}}}) ==
        begin + "its next value and those of 1 moments, 2 in all, but 3");
}

TEST_CASE("updates that cannot be the next values") {
  const std::string begin = "tower.cc:7: own cannot update parameter \"tower/w\"\n  requires   ";
  const auto blend = [](Value p) { return apply(Blend{{f64, {3}}}, {p}, at(9)); };
  CHECK(refused({.step = [&](Value p, Value, Values) { return Values{blend(p)}; }}) ==
        begin + "its next value of type f32[], but f64[3]");
  CHECK(refused({.step = [&](Value p, Value, Values) { return Values{p, blend(p)}; },
                 .kept_moments = {{"velocity", {}}}}) ==
        begin + "that of moment \"velocity\" of type f32[], but f64[3]");
  CHECK(refused({.step = [](Value, Value, Values) { return Values{Value()}; }}) ==
        begin + "its next value of type f32[], but an absent one (a default-made Value)");
  Graph other("other");
  const Value theirs = other.input("x", f32, {});
  CHECK(refused({.step = [&](Value, Value, Values) { return Values{theirs}; }}) ==
        begin + "its next value of type f32[], but a value of another graph");
}

TEST_CASE("expressions of an optimizer that are mistakes") {
  CHECK(refused({.step =
                     [](Value p, Value, Values) {
                       return Values{plus(p, apply(Blend{{f64, {3}}}, {p}, at(9)), at(9))};
                     }}) ==
        "tower.cc:7: own cannot update parameter \"tower/w\"\n"
        "  requires   expressions without a mistake, but\n"
        "    tower.cc:7: plus cannot join the graph as \"optimizer/tower/w/plus\"\n"
        "      operand 0  f32[]   \"tower/w\"                  tower.cc:2\n"
        "      operand 1  f64[3]  \"optimizer/tower/w/blend\"  tower.cc:7\n"
        "      requires   equal types, but f32[] and f64[3]");
}

TEST_CASE("clipping that loses or changes gradients") {
  const std::string begin = "tower.cc:7: own cannot clip the gradients\n  requires   ";
  CHECK(refused({.step = plain, .clipping = [](const Values&) { return Values{}; }}) ==
        begin + "as many gradients as it is given, 1, but 0");
  CHECK(refused({.step = plain, .clipping = [](const Values& g) {
                   return Values{apply(Blend{{f64, {}}}, {g[0]}, at(9))};
                 }}) == begin + "the gradient of \"tower/w\" of type f32[], but f64[]");
}

TEST_CASE("moments that cannot be kept") {
  CHECK(refused({.step = plain, .kept_moments = {{"a", {}}, {"a", {}}}}) ==
        "tower.cc:7: own cannot keep its moments\n"
        "  requires   moments of names of their own, of one letter or more without '/', but \"a\"");
  CHECK(refused({.step = plain, .kept_moments = {{"a", {Init::Kind::values, 0, 0, {1, 2}}}}}) ==
        "tower.cc:7: own cannot begin moment \"a\" of \"tower/w\"\n"
        "  requires   1 initial values for f32[], but 2");
}

}  // namespace
}  // namespace metronome::testing::update_test
