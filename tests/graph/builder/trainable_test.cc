// Mistakes with what is trained, each with its whole message. (What is found: paths_test.cc.)
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::trainable_test {
namespace {

TEST_CASE("parameters are listed in the order in which they were made") {
  Graph g("net");
  CHECK(g.parameters().empty());
  g.parameter("w", Type{f32, {2, 3}}, {}, at(1));
  g.state("h", Type{f32, {3}}, {}, at(2));
  g.parameter("b", Type{f64, {3}}, {}, at(3));
  g.freeze("b", at(4));
  std::string listed;
  for (const DeclaredParameter& p : g.parameters()) {
    listed += p.path + " " + to_string(p.type) + (p.trained ? "; " : " frozen; ");
  }
  CHECK(listed == "w f32[2, 3]; b f64[3] frozen; ");
}

TEST_CASE("freeze, thaw and scale_learning_rate name what is there") {
  CHECK(mistake_of([](Graph& g) {
          weight(g);
          g.freeze("tower", at(3));
        }) ==
        "tower.cc:3: freeze(\"tower\") finds nothing\n"
        "  requires   the path of a parameter or of a scope that holds some, made before");
  CHECK(mistake_of([](Graph& g) { g.thaw("w", at(3)); }) ==
        "tower.cc:3: thaw(\"w\") finds nothing\n"
        "  requires   the path of a parameter or of a scope that holds some, made before");
  CHECK(
      mistake_of([](Graph& g) {
        weight(g);
        g.freeze("*/w", at(3));
      }) ==
      "tower.cc:3: freeze(\"*/w\") finds nothing\n"
      "  requires   a glob that meets the path of a parameter or of a scope that holds some, made "
      "before\n"
      "  way out    near it are: \"w\"");
  CHECK(
      mistake_of([](Graph& g) {
        g.feed(g.state("s", Type{f32, {}}, {}, at(1)), g.input("x", f32, {}, at(1)));
        g.scale_learning_rate("?", 0.5, at(3));
      }) ==
      "tower.cc:3: scale_learning_rate(\"?\", 0.5) finds nothing\n"
      "  requires   a glob that meets the path of a parameter or of a scope that holds some, made "
      "before");
}

TEST_CASE("a path that finds nothing is answered with those near it") {
  const auto frozen = [](std::string_view path) {
    return mistake_of([&](Graph& g) {
      const Value x = g.input("x", floats(4).element, {4}, at(1));
      const Layer head = [](Value h) {
        return plus(h, make_parameter(h.emitter(), "weight", h.type(), {}, at(2)));
      };
      for (int i = 0; i < 5; ++i) x.scope("heads", head, at(2));
      x.scope("body", [&](Value h) { return h.scope("linear", head, at(2)); }, at(2));
      g.freeze(path, at(3));
    });
  };
  const auto answer = [](const std::string& path, const std::string& near) {
    const bool glob = path.find('*') != path.npos;
    return fmt::format(
               "tower.cc:3: freeze(\"{}\") finds nothing\n"
               "  requires   {} of a parameter or of a scope that holds some, made before",
               path, glob ? "a glob that meets the path" : "the path") +
           (near.empty() ? "" : "\n  way out    near it are: " + near);
  };
  // The scope was opened five times: its siblings are numbered.
  CHECK(frozen("heads_5") == answer("heads_5", "\"heads\", \"heads_1\", \"heads_2\""));
  CHECK(frozen("haeds/weight") == answer("haeds/weight", "\"heads/weight\""));
  CHECK(frozen("linear") == answer("linear", "\"body/linear\""));
  CHECK(frozen("linear/weight") == answer("linear/weight", "\"body/linear/weight\""));
  CHECK(frozen("body/*/wieght") == answer("body/*/wieght", "\"body/linear/weight\""));
  CHECK(frozen("head/**") == answer("head/**", "\"heads\""));
  CHECK(frozen("**/linaer/**") == answer("**/linaer/**", ""));
  CHECK(frozen("**/liner/**") == answer("**/liner/**", "\"body/linear\""));
  CHECK(frozen("**/linear/weigth/**") == answer("**/linear/weigth/**", "\"body/linear/weight\""));
  CHECK(frozen("decoder/attention") == answer("decoder/attention", ""));
}

TEST_CASE("what a mistake kept from being made is not missed a second time") {
  CHECK(mistake_of([](Graph& g) {
          const Value bad = plus(weight(g), g.input("x", f32, {5}, at(3)), at(4));
          bad.scope("head", [&](Value h) { return plus(h, g.parameter("v", h.type(), {})); });
          g.freeze("head", at(5));
          g.scale_learning_rate("head/*", 0.5, at(6));
        }).starts_with("tower.cc:4: plus cannot join the graph"));
}

TEST_CASE("a learning rate is scaled by a finite factor above 0") {
  const auto scaled_by = [](double factor) {
    return mistake_of([factor](Graph& g) {
      weight(g);
      g.scale_learning_rate("w", factor, at(3));
    });
  };
  CHECK(scaled_by(0) ==
        "tower.cc:3: scale_learning_rate(\"w\", 0) cannot be applied\n"
        "  requires   a finite factor above 0, but 0\n"
        "  way out    freeze what is not to be trained");
  CHECK(scaled_by(-0.5) ==
        "tower.cc:3: scale_learning_rate(\"w\", -0.5) cannot be applied\n"
        "  requires   a finite factor above 0, but -0.5");
  CHECK(scaled_by(std::nan("")) ==
        "tower.cc:3: scale_learning_rate(\"w\", nan) cannot be applied\n"
        "  requires   a finite factor above 0, but nan");
  CHECK(scaled_by(INFINITY) ==
        "tower.cc:3: scale_learning_rate(\"w\", inf) cannot be applied\n"
        "  requires   a finite factor above 0, but inf");
}

TEST_CASE("a weight decay is scaled by a finite factor of 0 or more") {
  const auto scaled_by = [](double factor, const char* path = "w") {
    return mistake_of([&](Graph& g) {
      weight(g);
      g.scale_weight_decay(path, factor, at(3));
    });
  };
  CHECK(scaled_by(-0.5) ==
        "tower.cc:3: scale_weight_decay(\"w\", -0.5) cannot be applied\n"
        "  requires   a finite factor of 0 or more, but -0.5");
  CHECK(scaled_by(std::nan("")) ==
        "tower.cc:3: scale_weight_decay(\"w\", nan) cannot be applied\n"
        "  requires   a finite factor of 0 or more, but nan");
  CHECK(scaled_by(0, "v") ==
        "tower.cc:3: scale_weight_decay(\"v\", 0) finds nothing\n"
        "  requires   the path of a parameter or of a scope that holds some, made before\n"
        "  way out    near it are: \"w\"");
}

}  // namespace
}  // namespace metronome::testing::trainable_test
