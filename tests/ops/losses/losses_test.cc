// Losses: what they are on small numbers, and what they say of wrong operands. Their agreement with
// libtorch, in value and gradient, is tests/ops/kernels/conformance_test.cc's.
#include <cmath>
#include <functional>

#include "graph/passes/lower.h"
#include "graph/passes/training/differentiate.h"
#include "ops/losses/distance_losses.h"
#include "ops/losses/losses.h"
#include "ops/optimizers/optimizers.h"
#include "tests/doctest.h"
#include "tests/ops/beside_libtorch.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/parameter_gradients.h"

namespace metronome::losses_test {

namespace {

// The loss of inputs "a" and "b".
using Loss = std::function<Value(Value, Value)>;

double computed(const Loss& loss, const at::Tensor& a, const at::Tensor& b) {
  Graph g("losses");
  const Value x = g.input("a", from_torch(a.scalar_type()), a.sizes().vec());
  const Value y = g.input("b", from_torch(b.scalar_type()), b.sizes().vec());
  const Value result = loss(x, y);
  g.output("result", result);
  g.validate();
  const ir::Graph lowered = passes::lower(g, {});
  Interpreter run(lowered);
  run.set("a", a), run.set("b", b);
  run.run();
  return run.tensor(lowered.readables()[0].value).item<double>();
}

// The gradient with respect to one number in place of the prediction.
double slope(const Loss& loss, double at, double target) {
  Graph g("losses");
  const Value x = g.parameter("x", {f64, {1}}, {});
  const Value y = g.input("y", f64, {1});
  g.minimize(loss(x, y), Sgd{});
  const ir::Graph graph = passes::differentiate(passes::lower(g, {}), {});
  Interpreter run(graph);
  run.set("x", numbers({at})), run.set("y", numbers({target}));
  run.run();
  return run.tensor(parameter_gradients(graph)[0].value).item<double>();
}

}  // namespace

TEST_CASE("losses of small numbers") {
  const at::Tensor x = numbers({1, 2, 4}), y = numbers({1, 0, 7});
  CHECK(computed([](Value a, Value b) { return mse_loss(a, b); }, x, y) ==
        doctest::Approx(13.0 / 3));
  CHECK(computed([](Value a, Value b) { return l1_loss(a, b); }, x, y) == doctest::Approx(5.0 / 3));
  CHECK(computed([](Value a, Value b) { return smooth_l1_loss(a, b, 2.5); }, x, y) ==
        doctest::Approx((0 + 4 / 5.0 + (3 - 1.25)) / 3));
  CHECK(computed([](Value a, Value b) { return bce_with_logits_loss(a, b); }, numbers({0}),
                 numbers({1})) == doctest::Approx(std::log(2)));
}

TEST_CASE("cross entropy of even logits is the logarithm of the number of classes") {
  const at::Tensor logits = at::zeros({2, 3, 5}, at::TensorOptions(at::kDouble));
  const at::Tensor targets = at::ones({2, 3}, at::TensorOptions(at::kLong));
  CHECK(computed([](Value a, Value b) { return cross_entropy_loss(a, b); }, logits, targets) ==
        doctest::Approx(std::log(5)));
}

TEST_CASE("large logits neither overflow nor lose digits") {
  const Loss bce = [](Value a, Value b) { return bce_with_logits_loss(a, b); };
  CHECK(computed(bce, numbers({1000}), numbers({0})) == 1000);
  CHECK(computed(bce, numbers({1000}), numbers({1})) == 0);
  CHECK(computed(bce, numbers({-1000}), numbers({0})) == 0);
  CHECK(computed(bce, numbers({-40}), numbers({0})) ==
        doctest::Approx(std::exp(-40)).epsilon(1e-14));
  const Loss entropy = [](Value a, Value b) { return cross_entropy_loss(a, b); };
  const at::Tensor first = at::zeros({1}, at::TensorOptions(at::kLong));
  CHECK(computed(entropy, numbers({1000, 0}).reshape({1, 2}), first) == 0);
  CHECK(computed(entropy, numbers({0, 1000}).reshape({1, 2}), first) == 1000);
}

TEST_CASE("gradients where a loss has its kink or its middle") {
  CHECK(slope([](Value a, Value b) { return bce_with_logits_loss(a, b); }, 0, 0) == 0.5);
  CHECK(slope([](Value a, Value b) { return bce_with_logits_loss(a, b); }, 0, 1) == -0.5);
  CHECK(slope([](Value a, Value b) { return l1_loss(a, b); }, 2, 2) == 0);
  CHECK(slope([](Value a, Value b) { return smooth_l1_loss(a, b); }, 2, 2) == 0);
  CHECK(slope([](Value a, Value b) { return smooth_l1_loss(a, b); }, 3, 2) == 1);
}

TEST_CASE("accuracy is the share of rows whose largest logit is the target's") {
  const at::Tensor logits = numbers({1, 5, 2, 9, 0, 0, 3, 4, 5, 0, 1, 0}).reshape({4, 3});
  const at::Tensor targets = at::tensor({1, 0, 1, 1}, at::TensorOptions(at::kLong));
  CHECK(computed([](Value a, Value b) { return accuracy(a, b); }, logits, targets) == 0.75);
}

TEST_CASE("rows whose target is to be ignored count for nothing") {
  const at::Tensor logits = numbers({1, 5, 2, 9, 0, 0, 3, 4, 5, 0, 1, 0}).reshape({4, 3});
  const auto targets = [](std::vector<std::int64_t> of) {
    return at::tensor(of, at::TensorOptions(at::kLong));
  };
  const Loss entropy = [](Value a, Value b) { return cross_entropy_loss(a, b); };
  const Loss of_two = [](Value a, Value b) {
    return cross_entropy_loss(a, b, {.ignore_index = 2});
  };
  const Loss share = [](Value a, Value b) { return accuracy(a, b); };
  const Loss share_of_two = [](Value a, Value b) { return accuracy(a, b, {.ignore_index = 2}); };
  const at::Tensor two_rows = logits.slice(0, 0, 2);
  const double both = computed(entropy, two_rows, targets({1, 2}));
  CHECK(computed(entropy, logits, targets({1, 2, -100, -100})) == doctest::Approx(both));
  CHECK(computed(of_two, logits, targets({1, 0, 2, 2})) ==
        doctest::Approx(computed(entropy, two_rows, targets({1, 0}))));
  CHECK(computed(share, logits, targets({1, 2, -100, -100})) == 0.5);
  CHECK(computed(share_of_two, logits, targets({1, 0, 2, 2})) == 1);
  const at::Tensor none = targets({-100, -100, -100, -100});
  CHECK(std::isnan(computed(entropy, logits, none)));
  CHECK(std::isnan(computed(share, logits, none)));
}

TEST_CASE("mse_loss does not broadcast") {
  CHECK(report([](Graph& g) {
          mse_loss(input(g, "y", f32, {64, 256}), input(g, "target", f32, {64, 128}), kHere);
        }) ==
        "model.cc:30: mse_loss cannot join the graph as \"mse_loss\"\n"
        "  operand 0  f32[64, 256]  \"y\"       model.cc:10\n"
        "  operand 1  f32[64, 128]  \"target\"  model.cc:10\n"
        "  requires   equal shapes, but [64, 256] and [64, 128]");
}

TEST_CASE("a target of the same elements in another shape is offered a reshape") {
  CHECK(report([](Graph& g) {
          l1_loss(input(g, "y", f32, {64, 1}), input(g, "target", f32, {64}), kHere);
        }) ==
        "model.cc:30: l1_loss cannot join the graph as \"l1_loss\"\n"
        "  operand 0  f32[64, 1]  \"y\"       model.cc:10\n"
        "  operand 1  f32[64]     \"target\"  model.cc:10\n"
        "  requires   equal shapes, but [64, 1] and [64]\n"
        "  way out    reshape one: target.reshape({64, 1})");
  // So do losses that are formulas.
  CHECK(report([](Graph& g) {
          huber_loss(input(g, "y", f32, {64, 1}), input(g, "target", f32, {64}), {}, kHere);
        })
            .ends_with("\n  requires   equal shapes, but [64, 1] and [64]\n"
                       "  way out    reshape one: x.reshape({64, 1})"));
}

TEST_CASE("element types are not promoted") {
  CHECK(report([](Graph& g) {
          mse_loss(input(g, "y", f32, {4}), input(g, "target", f64, {4}), kHere);
        }) ==
        "model.cc:30: mse_loss cannot join the graph as \"mse_loss\"\n"
        "  operand 0  f32[4]  \"y\"       model.cc:10\n"
        "  operand 1  f64[4]  \"target\"  model.cc:10\n"
        "  requires   equal element types, but f32 and f64\n"
        "  way out    cast operand 0 to f64: x.cast(mt::f64)");
}

TEST_CASE("whole numbers have no mean square") {
  CHECK(report([](Graph& g) {
          mse_loss(input(g, "y", i64, {4}), input(g, "target", i64, {4}), kHere);
        }) ==
        "model.cc:30: mse_loss cannot join the graph as \"mse_loss\"\n"
        "  operand 0  i64[4]  \"y\"       model.cc:10\n"
        "  operand 1  i64[4]  \"target\"  model.cc:10\n"
        "  requires   a floating element type, but i64\n"
        "  way out    cast it: x.cast(mt::f32)");
}

TEST_CASE("the mean of no elements is not a number") {
  CHECK(report([](Graph& g) {
          bce_with_logits_loss(input(g, "y", f32, {0, 3}), input(g, "target", f32, {0, 3}), kHere);
        }) ==
        "model.cc:30: bce_with_logits_loss cannot join the graph as \"bce_with_logits_loss\"\n"
        "  operand 0  f32[0, 3]  \"y\"       model.cc:10\n"
        "  operand 1  f32[0, 3]  \"target\"  model.cc:10\n"
        "  requires   one element or more, as the mean of none is not a number, but [0, 3]");
}

TEST_CASE("smooth_l1_loss wants a beta that is not negative") {
  CHECK(report([](Graph& g) {
          smooth_l1_loss(input(g, "y", f32, {4}), input(g, "target", f32, {4}), -1, kHere);
        }) ==
        "model.cc:30: smooth_l1_loss cannot join the graph as \"smooth_l1_loss\"\n"
        "  operand 0  f32[4]  \"y\"       model.cc:10\n"
        "  operand 1  f32[4]  \"target\"  model.cc:10\n"
        "  requires   a finite beta of 0 or more, but -1");
  const auto of_beta = [](double beta) {
    return report([beta](Graph& g) {
      smooth_l1_loss(input(g, "y", f32, {4}), input(g, "target", f32, {4}), beta, kHere);
    });
  };
  CHECK(of_beta(std::numeric_limits<double>::infinity())
            .ends_with("\n  requires   a finite beta of 0 or more, but inf"));
  CHECK(of_beta(1e-300).ends_with(
      "\n  requires   a beta of 0, or one that f32 can hold, as 0.5 / beta too, but 1e-300"));
}

TEST_CASE("cross entropy wants one class for each row") {
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "logits", f32, {32, 10}), input(g, "targets", i64, {31}), {},
                             kHere);
        }) ==
        "model.cc:30: cross_entropy_loss cannot join the graph as \"cross_entropy_loss\"\n"
        "  operand 0  f32[32, 10]  \"logits\"   model.cc:10\n"
        "  operand 1  i64[31]      \"targets\"  model.cc:10\n"
        "  requires   one target for each row of logits, [32], but [31]");
}

TEST_CASE("cross entropy wants indices of i64") {
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "logits", f32, {32, 10}), input(g, "targets", i32, {32}), {},
                             kHere);
        }) ==
        "model.cc:30: cross_entropy_loss cannot join the graph as \"cross_entropy_loss\"\n"
        "  operand 0  f32[32, 10]  \"logits\"   model.cc:10\n"
        "  operand 1  i32[32]      \"targets\"  model.cc:10\n"
        "  requires   targets of i64, but i32\n"
        "  way out    cast them: targets.cast(mt::i64)");
}

TEST_CASE("cross entropy does not take distributions") {
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "logits", f32, {32, 10}), input(g, "targets", f32, {32, 10}),
                             {}, kHere);
        }) ==
        "model.cc:30: cross_entropy_loss cannot join the graph as \"cross_entropy_loss\"\n"
        "  operand 0  f32[32, 10]  \"logits\"   model.cc:10\n"
        "  operand 1  f32[32, 10]  \"targets\"  model.cc:10\n"
        "  requires   targets of i64, but f32\n"
        "  way out    give the index of each row's class: mt::argmax(targets)");
}

TEST_CASE("cross entropy wants logits that are floating and have classes") {
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "logits", i32, {32, 10}), input(g, "targets", i64, {32}), {},
                             kHere);
        }) ==
        "model.cc:30: cross_entropy_loss cannot join the graph as \"cross_entropy_loss\"\n"
        "  operand 0  i32[32, 10]  \"logits\"   model.cc:10\n"
        "  operand 1  i64[32]      \"targets\"  model.cc:10\n"
        "  requires   a floating element type, but i32\n"
        "  way out    cast it: x.cast(mt::f32)");
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "logits", f32, {}), input(g, "targets", i64, {}), {}, kHere);
        }) ==
        "model.cc:30: cross_entropy_loss cannot join the graph as \"cross_entropy_loss\"\n"
        "  operand 0  f32[]  \"logits\"   model.cc:10\n"
        "  operand 1  i64[]  \"targets\"  model.cc:10\n"
        "  requires   logits with a dimension of classes, but a scalar");
}

TEST_CASE("accuracy says the same of wrong operands") {
  CHECK(report([](Graph& g) {
          accuracy(input(g, "logits", f32, {32, 10}), input(g, "targets", i64, {8}), {}, kHere);
        }) ==
        "model.cc:30: accuracy cannot be computed\n"
        "  operand 0  f32[32, 10]  \"logits\"   model.cc:10\n"
        "  operand 1  i64[8]       \"targets\"  model.cc:10\n"
        "  requires   one target for each row of logits, [32], but [8]");
}

}  // namespace metronome::losses_test
