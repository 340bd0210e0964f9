// Several losses of one graph: whole messages, and the passes' pictures.
#include <doctest/doctest.h>

#include <string>

#include "graph/builder/graph.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/training/differentiate.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::objectives_test {
namespace {

/// a w and b v, each a loss of one parameter; "both" reads both.
struct Two {
  Graph g{"two"};
  Value w = g.parameter("a/w", Type{f32, {}}, {}, at(1));
  Value v = g.parameter("b/v", Type{f32, {}}, {}, at(2));
  Value first = scale(w, 2, at(3)), second = scale(v, 3, at(4)), both = plus(w, v, at(5));

  void minimize_first() { g.minimize(first, Descent{}, {.name = "a", .parameters = {"a"}}, at(7)); }
  std::string mistake() const { return mistake_of(g); }
};

const std::string kLoss = "tower.cc:8: minimize cannot take the loss\n";
const std::string kSecond = "  operand 0  f32[]  \"scale_1\"  tower.cc:4\n";
const std::string kBoth = "  operand 0  f32[]  \"plus\"  tower.cc:5\n";

TEST_CASE("two objectives with parameters of their own are no mistake") {
  Two two;
  two.minimize_first();
  const Objective b =
      two.g.minimize(two.second, Descent{}, {.name = "b", .parameters = {"b/**"}}, at(8));
  CHECK(mistakes(two.g).empty());
  CHECK(b.name() == "b");
  CHECK(b.loss().id() == two.second.id());
  CHECK(two.g.loss().id() == two.first.id());
}

TEST_CASE("names that are not each objective's own") {
  Two unnamed;
  unnamed.g.minimize(unnamed.first, Descent{}, at(7));
  unnamed.g.minimize(unnamed.second, Descent{}, at(8));
  CHECK(unnamed.mistake() ==
        kLoss + kSecond +
            "  requires   a name of its own for each objective, but one without a name was given "
            "at tower.cc:7\n"
            "  way out    give it one, and the parameters that it trains: {.name = \"critic\", "
            ".parameters = {\"critic\"}}; or minimize the sum of the losses");
  Two equal;
  equal.minimize_first();
  equal.g.minimize(equal.second, Descent{}, {.name = "a", .parameters = {"b"}}, at(8));
  CHECK(mistakes(equal.g).front() ==
        kLoss + kSecond +
            "  requires   a name of its own for each objective, but \"a\" was given at "
            "tower.cc:7\n"
            "  way out    give it one, and the parameters that it trains: {.name = \"critic\", "
            ".parameters = {\"critic\"}}; or minimize the sum of the losses");
  Two path;
  path.g.minimize(path.both, Descent{}, {.name = "a/b"}, at(8));
  CHECK(path.mistake() == kLoss + kBoth + "  requires   a name without '/', but \"a/b\"");
  Two taken;
  taken.g.output("loss/b", taken.first, at(6));
  taken.g.minimize(taken.both, Descent{}, {.name = "b"}, at(8));
  CHECK(taken.mistake() ==
        kLoss + kBoth +
            "  requires   the name \"loss/b\" for what is minimised, but it names another value");
}

TEST_CASE("a parameter that two objectives would train") {
  Two all;
  all.g.minimize(all.first, Descent{}, at(7));
  all.g.minimize(all.second, Descent{}, {.name = "b"}, at(8));
  CHECK(all.mistake() ==
        kLoss + kSecond +
            "  requires   parameters that no other objective trains, but \"a/w\", \"b/v\" are of "
            "the one at tower.cc:7\n"
            "  way out    name those of each: {.parameters = {\"critic\"}}");
  Two one;
  one.minimize_first();
  one.g.minimize(one.both, Descent{}, {.name = "b", .parameters = {"b", "a/w"}}, at(8));
  CHECK(mistakes(one.g).front() ==
        kLoss + kBoth +
            "  requires   parameters that no other objective trains, but \"a/w\" is of the one at "
            "tower.cc:7\n"
            "  way out    name those of each: {.parameters = {\"critic\"}}");
}

TEST_CASE("parameters that an objective names, but that its loss does not reach") {
  Two all;
  all.g.minimize(all.second, Descent{}, {.name = "b", .parameters = {"**"}}, at(7));
  CHECK(mistakes(all.g).empty());  // the report lists them
  Two named;
  named.g.minimize(named.second, Descent{}, {.parameters = {"b", "a", "b/v"}}, at(8));
  const std::string missed =
      "tower.cc:8: minimize does not reach \"a/w\"\n"
      "  requires   a loss that reaches the parameters that it is to train\n"
      "  way out    leave them out of ObjectiveOptions::parameters, or freeze them";
  CHECK(named.mistake() == missed);
  named.g.freeze("a");
  CHECK(mistakes(named.g).empty());
  named.g.thaw("a");
  CHECK(named.mistake() == missed);
}

TEST_CASE("paths that find no parameter, and none") {
  Two wrong;
  wrong.g.minimize(wrong.second, Descent{}, {.parameters = {"b", "c"}}, at(8));
  CHECK(wrong.mistake() ==
        "tower.cc:8: minimize over \"c\" finds nothing\n"
        "  requires   the path of a parameter or of a scope that holds some, made before\n"
        "  way out    near it are: \"a\", \"b\"");
  Two none;
  none.g.minimize(none.second, Descent{}, {.parameters = {}}, at(8));
  CHECK(none.mistake() ==
        kLoss + kSecond +
            "  requires   one path of parameters or more in ObjectiveOptions::parameters, but "
            "none\n"
            "  way out    leave the member out, and the objective trains all parameters");
}

TEST_CASE("a frozen parameter that two objectives name is trained by neither") {
  Two two;
  const Value u = two.g.parameter("u", Type{f32, {}}, {}, at(5));
  const Value first = plus(two.w, u, at(5)), second = plus(two.v, u, at(6));
  two.g.freeze("u");
  two.g.minimize(first, Descent{}, {.name = "a", .parameters = {"a", "u"}}, at(7));
  const Value late = plus(second, u, at(8));
  two.g.minimize(late, Descent{}, {.name = "b", .parameters = {"b", "u"}}, at(8));
  CHECK(mistakes(two.g).empty());
  two.g.thaw("u");
  CHECK(two.mistake() ==
        "tower.cc:8: minimize names \"u\", and so does the one at tower.cc:7\n"
        "  requires   parameters that no other objective trains, or frozen ones\n"
        "  way out    name those of each: {.parameters = {\"critic\"}}");
}

TEST_CASE("a parameter that an objective names, and that follows another") {
  for (const bool follows_first : {false, true}) {
    Two two, apart, all;
    const auto declare = [&](Two& t, ObjectiveOptions options) {
      if (follows_first) t.g.follow("b/v", "a/w", {.rate = 0.5}, at(6));
      t.g.minimize(t.both, Descent{}, std::move(options), at(8));
      if (!follows_first) t.g.follow("b/v", "a/w", {.rate = 0.5}, at(9));
    };
    declare(two, {.parameters = {"a", "b"}});
    CHECK(two.mistake() ==
          "tower.cc:8: minimize names \"b/v\", which Graph::follow leaves untrained\n"
          "  requires   parameters that follow no other\n"
          "  way out    leave what follows out of ObjectiveOptions::parameters");
    declare(apart, {.parameters = {"a"}});
    CHECK(mistakes(apart.g).empty());
    declare(all, {});
    CHECK(mistakes(all.g).empty());
  }
}

TEST_CASE("a parameter that is declared behind an objective of all") {
  Two two;
  two.g.minimize(two.first, Descent{}, at(3));
  const Value u = two.g.parameter("u", Type{f32, {}}, {}, at(4));
  const Value t = two.g.parameter("t", Type{f32, {}}, {}, at(5));
  CHECK(mistakes(two.g).empty());
  two.g.minimize(plus(u, t, at(6)), Descent{}, {.name = "u", .parameters = {"u"}}, at(8));
  CHECK(two.mistake() ==
        "tower.cc:5: no objective trains \"t\"\n"
        "  requires   each parameter in the set of one objective, or frozen\n"
        "  way out    name it in ObjectiveOptions::parameters, or freeze it");
}

TEST_CASE("the verbs of the graph and of its only objective are one number") {
  Two two;
  const Objective only = two.g.minimize(two.first, Descent{}, at(7));
  CHECK(two.g.learning_rate().id() == only.learning_rate().id());
  CHECK(only.gradient_norm().id() == two.g.gradient_norm().id());
  CHECK(mistakes(two.g).empty());
}

TEST_CASE("a parameter in no set") {
  Two two;
  two.minimize_first();
  CHECK(two.mistake() ==
        "tower.cc:2: no objective trains \"b/v\"\n"
        "  requires   each parameter in the set of one objective, or frozen\n"
        "  way out    name it in ObjectiveOptions::parameters, or freeze it");
  two.g.freeze("b");
  CHECK(mistakes(two.g).empty());
}

TEST_CASE("a parameter is read as updated behind what trains it, and its own gradient as before") {
  Two two;
  two.g.minimize(two.first, Descent{}, {.name = "a", .parameters = {"a"}}, at(7));
  const Value updated = two.g.parameter("a/w", at(9));
  const Objective b = two.g.minimize(plus(updated, two.v, at(9)), Descent{},
                                     {.name = "b", .parameters = {"b"}}, at(8));
  CHECK(two.g.parameter("a/w", at(10)).id() == updated.id());
  b.gradient(updated, at(11));
  b.gradient(two.g.parameter("b/v"), at(12));
  CHECK(mistakes(two.g).empty());
  const std::string text = two.g.print();
  CAPTURE(text);
  CHECK(text.find("%5 = read updated a/w : f32[]") != text.npos);
  CHECK(text.find("gradient_of(%5) {objective=1}") != text.npos);
  CHECK(text.find("gradient_of(%1) {objective=1}") != text.npos);
}

TEST_CASE("numbers of one objective, asked of a graph with two") {
  Two two;
  two.g.learning_rate(at(6));
  two.minimize_first();
  two.g.minimize(two.second, Descent{}, {.name = "b", .parameters = {"b"}}, at(8));
  two.g.gradient(two.both, at(9));
  const std::string end =
      " is of one objective, but the graph has 2\n"
      "  requires   the objective that is meant\n"
      "  way out    call it of the Objective that minimize returned";
  CHECK(mistakes(two.g) == std::vector<std::string>{"tower.cc:6: learning_rate()" + end,
                                                    "tower.cc:9: gradient(value)" + end});
}

TEST_CASE("each objective has the gradients of its own parameters alone") {
  Two two;
  two.g.minimize(two.both, Descent{}, {.name = "a", .parameters = {"a"}}, at(7));
  const Objective b =
      two.g.minimize(two.second, Descent{}, {.name = "b", .parameters = {"b"}}, at(8));
  const Value asked = b.gradient(two.second, at(9));
  CHECK(two.g.data().readables().back().name == "gradient/b of scale_1");
  CHECK(asked.node().op->attributes() == "objective=1");
  const ir::Graph made = passes::differentiate(passes::for_mode(two.g, {}), {});
  for (std::size_t o = 0; o < 2; ++o) {
    const std::vector<ParameterGradient>& gradients = made.objectives()[o].gradients;
    REQUIRE(gradients.size() == 1);
    CHECK(made.storage(gradients[0].parameter).path == (o == 0 ? "a/w" : "b/v"));
  }
}

}  // namespace
}  // namespace metronome::testing::objectives_test
