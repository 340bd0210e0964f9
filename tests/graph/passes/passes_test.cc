// Each pass as a picture: the printed graph before and after.
#include <doctest/doctest.h>

#include <cstring>

#include "graph/check/verify.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/lower.h"
#include "graph/passes/materialize.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "graph/rules/gradient.h"
#include "tests/graph/after.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::passes_test {
namespace {

/// x + x + x, as a composite.
struct Triple {
  static constexpr std::string_view name = "triple";
  bool operator==(const Triple&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values lower(std::span<const Value> in) const { return {plus(plus(in[0], in[0]), in[0])}; }
};

/// x in training, 2 x in evaluation; folds away where its factor is 1.
struct Moody {
  static constexpr std::string_view name = "moody";
  double factor = 3;
  bool operator==(const Moody&) const = default;
  std::string attributes() const { return fmt::format("{}", factor); }
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const { return {v.grad()}; }
  Values evaluate(std::span<const Value> in) const { return {scale(in[0], 2)}; }
  Value fold(std::span<const Value> in) const { return factor == 1 ? in[0] : Value(); }
};

struct HeavyBall {
  static constexpr std::string_view name = "heavy_ball";
  std::string attributes() const { return ""; }
  std::vector<Moment> moments() const { return {{"velocity", {}}}; }
  Values scalars(Value, double) const { return {}; }
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value>) const {
    const Value velocity = plus(moments[0], gradient);
    return {plus(parameter, velocity), velocity};
  }
};

TEST_CASE("lower expands a composite") {
  Graph g("g");
  g.output("y", apply(Triple{}, {g.input("x", f32, {})}, Line::here()));
  CHECK(after(passes::lower, g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = plus(%0, %0) : f32[]  \"triple/plus\"\n"
        "  %2 = plus(%1, %0) : f32[]  \"triple/plus_1\"\n"
        "  \"y\" is %2\n");
}

TEST_CASE("lower leaves a composite that the target keeps") {
  Graph g("g");
  g.output("y", apply(Triple{}, {g.input("x", f32, {})}, Line::here()));
  Settings settings;
  settings.keeps = [](const OpPtr& op, std::span<const Type>) { return op->name() == "triple"; };
  CHECK(after(passes::lower, g, settings) == g.print());
}

TEST_CASE("for_mode takes evaluation forms and drops assignments and gradients") {
  Graph g("g");
  const Value s = g.state("s", Type{f32, {}});
  const Value y = apply(Moody{}, {s}, Line::here());
  g.feed(s, y);
  g.output("y", y);
  Settings settings;
  CHECK(after(passes::for_mode, g, settings) == g.print());
  settings.mode = Mode::evaluate;
  CHECK(after(passes::for_mode, g, settings) ==
        "graph \"g\"\n"
        "  %0 = read s : f32[]\n"
        "  %1 = scale(%0) {factor=2} : f32[]  \"moody/scale\"\n"
        "  \"y\" is %1\n");
}

TEST_CASE("differentiate walks backwards and joins contributions") {
  Graph g("g");
  const Value w = g.parameter("w", Type{f32, {}}, {});
  g.minimize(plus(scale(w, 2), w), HeavyBall{});
  const ir::Graph d = passes::differentiate(g, {});
  CHECK(d.print() ==
        "graph \"g\"\n"
        "  %0 = read w : f32[]\n"
        "  %1 = scale(%0) {factor=2} : f32[]  \"scale\"\n"
        "  %2 = plus(%1, %0) : f32[]  \"plus\"\n"
        "  %3 = fill() {1} : f32[]  \"plus.grad\"\n"
        "  %4 = scale(%3) {factor=2} : f32[]  \"scale.grad/scale\"\n"
        "  %5 = accumulate(%3, %4) : f32[]  \"scale.grad/accumulate\"\n"
        "  \"loss\" is %2\n");
  REQUIRE(d.objectives()[0].gradients.size() == 1);
  CHECK(d.objectives()[0].gradients[0].value == ValueId{5, 0});
}

TEST_CASE("gradients carry the line of the node they belong to") {
  Graph g("g");
  const Value w = g.parameter("w", Type{f32, {}}, {});
  const Value loss = scale(w, 2, Line{"user.cc", 7});
  g.minimize(loss, HeavyBall{});
  const ir::Graph d = passes::differentiate(g, {});
  for (const Node& n : d.nodes()) {
    if (n.path.get().starts_with("scale")) CHECK(to_string(n.line) == "user.cc:7");
  }
}

TEST_CASE("a gradient flows neither into frozen parameters nor through stop_gradient") {
  Graph g("g");
  const Value a = g.parameter("a", Type{f32, {}}, {});
  const Value b = g.parameter("b", Type{f32, {}}, {});
  const Value c = g.parameter("c", Type{f32, {}}, {});
  g.minimize(plus(plus(a, stop_gradient(b)), c), HeavyBall{});
  g.freeze("c");
  const ir::Graph d = passes::differentiate(g, {});
  REQUIRE(d.objectives()[0].gradients.size() == 1);
  CHECK(d.storage(d.objectives()[0].gradients[0].parameter).path == "a");
}

TEST_CASE("a declared gradient is kept; one that the loss does not reach is zero") {
  Graph g("g");
  const Value w = g.parameter("w", Type{f32, {}}, {});
  const Value h = scale(w, 2);
  const Value apart = scale(w, 3);
  g.minimize(scale(h, 5), HeavyBall{});
  g.gradient(h);
  g.gradient(apart);
  const ir::Graph d = passes::differentiate(g, {});
  CHECK(d.print() ==
        "graph \"g\"\n"
        "  %0 = read w : f32[]\n"
        "  %1 = scale(%0) {factor=2} : f32[]  \"scale\"\n"
        "  %2 = scale(%0) {factor=3} : f32[]  \"scale_1\"\n"
        "  %3 = scale(%1) {factor=5} : f32[]  \"scale_2\"\n"
        "  %4 = fill() {1} : f32[]  \"scale_2.grad\"\n"
        "  %5 = scale(%4) {factor=5} : f32[]  \"scale_2.grad/scale\"\n"
        "  %6 = scale(%5) {factor=2} : f32[]  \"scale.grad/scale\"\n"
        "  %7 = gradient_of(%5) : f32[]  \"gradient_of\"\n"
        "  %8 = fill() {0} : f32[]  \"gradient_of_1\"\n"
        "  %9 = gradient_of(%8) : f32[]  \"gradient_of_1\"\n"
        "  \"loss\" is %3\n"
        "  \"gradient of scale\" is %7\n"
        "  \"gradient of scale_1\" is %9\n");
}

TEST_CASE("what is made of gradients comes after them, and after the update what is made of that") {
  Graph g("g");
  const Value w = g.parameter("w", Type{f32, {}}, {});
  const Value h = scale(w, 2);
  g.output("slope", scale(g.gradient(h), 7));
  g.minimize(scale(h, 5), Descent{});
  g.average("w", {.decay = 0.5, .bias_correction = false});
  const ir::Graph step = passes::update(passes::differentiate(g, {}), {});
  CHECK(step.print() ==
        "graph \"g\"\n"
        "  %0 = read w : f32[]\n"
        "  %1 = scale(%0) {factor=2} : f32[]  \"scale\"\n"
        "  %2 = scale(%1) {factor=5} : f32[]  \"scale_2\"\n"
        "  %3 = read average/ema/w : f32[]\n"
        "  %4 = fill() {1} : f32[]  \"scale_2.grad\"\n"
        "  %5 = scale(%4) {factor=5} : f32[]  \"scale_2.grad/scale\"\n"
        "  %6 = scale(%5) {factor=2} : f32[]  \"scale.grad/scale\"\n"
        "  %7 = read replay : i64[]\n"
        "  %8 = increment(%7) : i64[]  \"optimizer/increment\"\n"
        "  %9 = read update : i64[]\n"
        "  %10 = plus(%0, %6) : f32[]  \"optimizer/w/plus\"\n"
        "  %11 = increment(%9) : i64[]  \"optimizer/increment_1\"\n"
        "  %12 = scale(%5) {factor=7} : f32[]  \"scale_1\"\n"
        "  %13 = average_weight(%9) {decay=0.5} : f64[]  \"average/average_weight\"\n"
        "  %14 = average_update(%3, %10, %13) : f32[]  \"average/average_update\"\n"
        "  \"gradient of scale\" is %5\n"
        "  \"slope\" is %12\n"
        "  \"loss\" is %2\n"
        "  average/ema/w := %14\n"
        "  replay := %8\n"
        "  w := %10\n"
        "  update := %11\n");
}

TEST_CASE("update assigns parameters, moments and counters") {
  Graph g("g");
  const Value w = g.parameter("w", Type{f32, {}}, {});
  g.minimize(scale(w, 2), HeavyBall{});
  CHECK(passes::update(passes::differentiate(g, {}), {}).print() ==
        "graph \"g\"\n"
        "  %0 = read w : f32[]\n"
        "  %1 = scale(%0) {factor=2} : f32[]  \"scale\"\n"
        "  %2 = fill() {1} : f32[]  \"scale.grad\"\n"
        "  %3 = scale(%2) {factor=2} : f32[]  \"scale.grad/scale\"\n"
        "  %4 = read replay : i64[]\n"
        "  %5 = increment(%4) : i64[]  \"optimizer/increment\"\n"
        "  %6 = read update : i64[]\n"
        "  %7 = read optimizer/velocity/w : f32[]\n"
        "  %8 = plus(%7, %3) : f32[]  \"optimizer/w/plus\"\n"
        "  %9 = plus(%0, %8) : f32[]  \"optimizer/w/plus_1\"\n"
        "  %10 = increment(%6) : i64[]  \"optimizer/increment_1\"\n"
        "  \"loss\" is %1\n"
        "  replay := %5\n"
        "  w := %9\n"
        "  optimizer/velocity/w := %8\n"
        "  update := %10\n");
}

TEST_CASE("fold applies an op's identity and evaluates small constants") {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  const Value two = g.constant(2, f32);
  g.output("y", plus(apply(Moody{1}, {x}, Line::here()), scale(two, 3)));
  Settings settings;
  settings.evaluate = [](const Op& op, std::span<const Type>, std::span<const Bytes> in) {
    float v = 0;
    if (const Fill* fill = op.as<Fill>()) {
      v = static_cast<float>(fill->number);
    } else {
      std::memcpy(&v, in[0].data(), sizeof v);
      v *= static_cast<float>(op.as<Scale>()->factor);
    }
    Bytes bytes(sizeof v);
    std::memcpy(bytes.data(), &v, sizeof v);
    return std::vector<Bytes>{bytes};
  };
  const ir::Graph folded = passes::prune(passes::fold(g, settings), settings);
  CHECK(folded.print() ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = constant() {4 bytes} : f32[]  \"scale\"\n"
        "  %2 = plus(%0, %1) : f32[]  \"plus\"\n"
        "  \"y\" is %2\n");
  float six = 0;
  std::memcpy(&six, folded.nodes()[1].op->as<Constant>()->bytes.data(), sizeof six);
  CHECK(six == 6);
}

TEST_CASE("share makes equal nodes one, by attributes too") {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  const Value once = scale(x, 2);
  const Value again = scale(x, 2);
  const Value twice = plus(once, again);
  g.output("y", plus(twice, scale(x, 3)));
  CHECK(after(passes::share, g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = scale(%0) {factor=2} : f32[]  \"scale\"\n"
        "  %2 = plus(%1, %1) : f32[]  \"plus\"\n"
        "  %3 = scale(%0) {factor=3} : f32[]  \"scale_2\"\n"
        "  %4 = plus(%2, %3) : f32[]  \"plus_1\"\n"
        "  \"y\" is %4\n");
}

TEST_CASE("prune drops what nothing reads") {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  scale(scale(x, 2), 3);
  g.output("y", scale(x, 4));
  CHECK(after(passes::prune, g) ==
        "graph \"g\"\n"
        "  %0 = input x : f32[]\n"
        "  %1 = scale(%0) {factor=4} : f32[]  \"scale_2\"\n"
        "  \"y\" is %1\n");
}

TEST_CASE("prune drops an assignment of what its storage holds, and no other") {
  Graph g("g");
  const Value kept = g.state("kept", {f32, {}}), a = g.state("a", {f32, {}});
  const Value b = g.state("b", {f32, {}}), unread = g.state("unread", {f32, {}});
  g.feed(kept, kept);
  g.feed(unread, unread);
  g.feed(a, b);
  g.feed(b, a);
  g.output("y", scale(kept, 4));
  CHECK(after(passes::prune, g) ==
        "graph \"g\"\n"
        "  %0 = read kept : f32[]\n"
        "  %1 = read a : f32[]\n"
        "  %2 = read b : f32[]\n"
        "  %3 = scale(%0) {factor=4} : f32[]  \"scale\"\n"
        "  \"y\" is %3\n"
        "  a := %2\n"
        "  b := %1\n");
}

TEST_CASE("what has effects is neither folded nor shared nor pruned") {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  apply(Send{}, {x}, Line::here());
  g.output("y", apply(Send{}, {x}, Line::here()));
  for (const auto pass : {passes::fold, passes::share, passes::prune}) {
    CHECK(after(pass, g) == g.print());
  }
}

TEST_CASE("materialize copies what would be an input's or a storage's memory") {
  // The output of a storage is its old value, and two states that swap read both before either
  // changes.
  Graph g("g");
  const Value a = g.state("a", Type{f32, {}});
  const Value b = g.state("b", Type{f32, {}});
  g.feed(a, b);
  g.feed(b, a);
  g.output("old", a);
  CHECK(after(passes::materialize, g) ==
        "graph \"g\"\n"
        "  %0 = read a : f32[]\n"
        "  %1 = read b : f32[]\n"
        "  %2 = copy(%0) : f32[]  \"a/copy\"\n"
        "  %3 = copy(%1) : f32[]  \"b/copy\"\n"
        "  %4 = copy(%0) : f32[]  \"a/copy\"\n"
        "  \"old\" is %2\n"
        "  a := %3\n"
        "  b := %4\n");
}

TEST_CASE("verify names the pass and the node") {
  Graph g("g");
  const Value x = g.input("x", f32, {});
  g.output("y", scale(x, 2));
  g.emitter().graph.set_assignments({{StorageId{1}, x.id(), Line{}}});
  CHECK_THROWS_WITH_AS(check::verify(g, "broken"),
                       "Metronome made a mistake of its own, please report it: after pass broken: "
                       "\"replay\" of type i64[] is assigned f32[]",
                       InternalError);
}

}  // namespace
}  // namespace metronome::testing::passes_test
