// Sizes of 0, as docs/reference.md has them in a table.
#include <limits>
#include <string>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/corners.h"

namespace metronome::nothing_test {
namespace {

using tests::Numbers;
using tests::wrong_at;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("reductions of nothing") {
  const auto over_rows = [](const Reduction& reduction) {
    return [=](Graph&, const Values& in) { return reduction(in[0], 0); };
  };
  const Numbers none({}, {0, 3});
  CHECK(wrong_at({over_rows(sum), {none}, {0, 0, 0}, {{}}}) == "");
  CHECK(wrong_at({over_rows(mean), {none}, {kNan, kNan, kNan}, {{}}}) == "");
  CHECK(wrong_at({over_rows(sum_squares), {none}, {0, 0, 0}, {{}}}) == "");
  const auto norm_of_rows = [](Graph&, const Values& in) { return norm(in[0], 2, 0); };
  CHECK(wrong_at({norm_of_rows, {none}, {0, 0, 0}, {{}}}) == "");
  const auto norm_of_all = [](Graph&, const Values& in) { return norm(in[0], 3); };
  CHECK(wrong_at({norm_of_all, {none}, {0}, {{}}}) == "");
}

template <class Declare>
std::string mistake_of(const Declare& declare) {
  Graph g("nothing");
  declare(g.input("x", f32, {0, 3}, {"net.cc", 1}));
  return tests::error_of<GraphError>([&] { g.validate(); });
}

TEST_CASE("what nothing has not is refused") {
  const Line line{"net.cc", 2};
  const std::string operand = "  operand 0  f32[0, 3]  \"x\"  net.cc:1\n";
  CHECK(mistake_of([&](Value x) { max(x, 0, false, line); }) ==
        "net.cc:2: max cannot join the graph as \"max\"\n" + operand +
            "  requires   one element or more along the axes, but 0");
  CHECK(mistake_of([&](Value x) { softmax(x, 0, line); }) ==
        "net.cc:2: softmax cannot join the graph as \"softmax\"\n" + operand +
            "  requires   one element or more along the axis, but 0");
  CHECK(mistake_of([&](Value x) { argmax(x, 0, line); }) ==
        "net.cc:2: argmax cannot join the graph as \"argmax\"\n" + operand +
            "  requires   one element or more along the axis, but 0");
  CHECK(mistake_of([&](Value x) { mse_loss(x, x, line); }) ==
        "net.cc:2: mse_loss cannot join the graph as \"mse_loss\"\n" + operand +
            "  operand 1  f32[0, 3]  \"x\"  net.cc:1\n"
            "  requires   one element or more, as the mean of none is not a number, but [0, 3]");
  CHECK(mistake_of([&](Value x) { softmax(x, 1, line); }) == "nothing");
}

TEST_CASE("a recurrent layer over no steps gives its first state") {
  for (const bool by_lengths : {false, true}) {
    for (const Target& target : {cpu_replay(), tests::device_of_host()}) {
      Graph g("still");
      const Value x = g.input("x", f32, {0, 2, 3}), first = g.input("first", f32, {1, 2, 4});
      const Value lengths = g.constant({0, 0}, {i64, {2}});
      const Recurrent made =
          gru(4)(x, {.hidden = first, .lengths = by_lengths ? lengths : Value()});
      g.output("output", made.output);
      g.output("hidden", made.hidden);
      g.output("slope", g.gradient(first));
      const Value scale = g.parameter("scale", {f32, {}}, ones());
      g.minimize(sum(made.hidden) * scale, Sgd{});
      Executable step = compile(g, target, tests::plain_options());
      const at::Tensor state = at::arange(8, at::kFloat).reshape({1, 2, 4});
      step.run({{x, at::zeros({0, 2, 3})}, {first, state}});
      CHECK(step.read("output").sizes() == at::IntArrayRef({0, 2, 4}));
      CHECK(step.read("hidden").equal(state));
      CHECK(step.read("slope").equal(at::ones({1, 2, 4})));
    }
  }
}

TEST_CASE("layers on a batch of no rows") {
  for (const Target& target : {cpu_replay(), tests::device_of_host()}) {
    Graph g("empty");
    const Value x = g.input("x", f32, {0, 3});
    const Value y = x.through(linear(4)).through(layer_norm()).through(gelu);
    g.output("y", y);
    g.minimize(sum(y), Sgd{});
    Executable step = compile(g, target, tests::plain_options());
    const at::Tensor before = step.get("linear/weight");
    step.run({{x, at::zeros({0, 3})}});
    CHECK(step.read("y").sizes() == at::IntArrayRef({0, 4}));
    CHECK(step.get("linear/weight").equal(before));
  }
}

}  // namespace
}  // namespace metronome::nothing_test
