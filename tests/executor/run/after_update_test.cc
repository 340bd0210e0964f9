// Values made of gradients and of the update, to be read after a step.
#include <algorithm>

#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::after_update_test {
namespace {

using tests::OnEveryTarget;
using tests::plain_options;

Line at_line(int number) { return {"net.cc", number}; }

at::Tensor batch(int step) {
  return at::sin(at::arange(15, at::TensorOptions(at::kDouble)) * 0.7 + step).reshape({5, 3});
}

TEST_CASE("outputs made of gradients are those of the gradients that are read") {
  Graph g("net");
  const Value x = g.input("x", f64, {5, 3});
  const Value h = x.through(linear(4)).through(tanh);
  const Value y = h.through(linear(2));
  const Value of_h = g.gradient(h), of_weight = g.gradient(g.parameter("linear/weight"));
  const Value of_apart = g.gradient(exp(x));
  g.output("norm", norm(of_h));
  g.output("both", sum(of_h * h) + max(of_weight) * g.gradient_norm());
  g.output("apart", of_apart + 1.0);
  g.output("h", h);
  const Value of_all = g.gradient_norm();
  g.minimize(mean(square(y - 0.25)), Adam{.lr = 0.05, .clip_norm = 0.1});
  OnEveryTarget runs(g);
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    runs.run({{x, batch(step)}});
    for (Executable& e : runs.executables) {
      const at::Tensor slope = e.read(of_h).clone(), weight = e.read(of_weight).clone();
      CHECK(e.read("norm").item<double>() ==
            doctest::Approx(slope.norm().item<double>()).epsilon(1e-12));
      CHECK(at::equal(e.read("apart"), at::ones({5, 3}, at::kDouble)));
      const at::Tensor both = (slope * e.read("h")).sum() + weight.max() * e.read(of_all);
      CHECK(e.read("both").item<double>() == doctest::Approx(both.item<double>()).epsilon(1e-12));
    }
  }
}

TEST_CASE("an evaluation computes none of it") {
  Graph g("net");
  const Value x = g.input("x", f64, {5, 3});
  const Value y = x.through(linear(2));
  g.output("slope", norm(g.gradient(y)) * 2.0);
  g.output("y", y);
  g.minimize(mean(square(y)), Sgd{});
  CompileOptions options = plain_options();
  options.modes = {train, evaluate};
  for (const Target& target : tests::targets()) {
    Executable step = compile(g, target, options);
    step.evaluate({{x, batch(0)}});
    CHECK(step.read("y").sizes() == at::IntArrayRef({5, 2}));
    CHECK_THROWS_AS(step.read("slope"), RunError);
    step.run({{x, batch(0)}});
    CHECK(step.read("slope").item<double>() > 0);
  }
  options.evaluate_outputs = {"slope"};
  CHECK_THROWS_WITH_AS(compile(g, cpu_replay(), options),
                       "graph \"net\": CompileOptions::evaluate_outputs names \"slope\", but an "
                       "evaluation keeps \"y\", \"loss\"",
                       RunError);
}

TEST_CASE("an update ratio is how far a step moves a parameter, beside its size") {
  Graph g("net");
  const Value x = g.input("x", f64, {5, 3});
  const Value y = x.through(linear(4)).through(tanh).through(linear(2));
  g.minimize(mean(square(y - 0.25)), Adam{.lr = 0.05});
  g.output("ratio", update_ratio(g.parameter("linear/weight")));
  g.output("ratio of bias", update_ratio(g.parameter("linear_1/bias")));
  OnEveryTarget runs(g);
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    std::vector<at::Tensor> weights, biases;
    for (Executable& e : runs.executables) {
      weights.push_back(e.get("linear/weight"));
      biases.push_back(e.get("linear_1/bias"));
    }
    runs.run({{x, batch(step)}});
    for (std::size_t k = 0; k < runs.executables.size(); ++k) {
      Executable& e = runs.executables[k];
      const auto ratio = [](const at::Tensor& before, const at::Tensor& after) {
        return (after - before).norm().item<double>() / before.norm().item<double>();
      };
      CHECK(e.read("ratio").item<double>() ==
            doctest::Approx(ratio(weights[k], e.get("linear/weight"))).epsilon(1e-10));
      CHECK(e.read("ratio of bias").item<double>() ==
            doctest::Approx(ratio(biases[k], e.get("linear_1/bias"))).epsilon(1e-10));
    }
  }
}

TEST_CASE("what is no parameter has no update ratio; a frozen one has 0") {
  Graph g("net");
  const Value x = g.input("x", f64, {5, 3}, at_line(1));
  g.minimize(mean(square(x.through(linear(2)))), Sgd{});
  CHECK(update_ratio(x, at_line(3)).poisoned());
  CHECK(tests::error_of<GraphError>([&] { g.validate(); }) ==
        "net.cc:3: update_ratio cannot be made\n"
        "  operand 0  f64[5, 3]  \"x\"  net.cc:1\n"
        "  requires   a parameter, as Graph::parameter gives it");
  Graph frozen("net");
  const Value y = frozen.input("x", f64, {5, 3}).through(linear(4)).through(linear(2));
  frozen.minimize(mean(square(y)), Sgd{.lr = 0.1});
  frozen.freeze("linear");
  frozen.output("ratio", update_ratio(frozen.parameter("linear/weight")));
  Executable step = compile(frozen, cpu_replay(), plain_options());
  step.run({{"x", batch(0)}});
  CHECK(step.read("ratio").item<double>() == 0);
}

TEST_CASE("a region may not use what comes after the forward pass, nor a decision") {
  Graph g("net");
  const Value x = g.input("x", f64, {2, 2}, at_line(1));
  const Value y = x.through(linear(2));
  g.minimize(mean(square(y)), Sgd{});
  const Value slope = g.gradient(y, at_line(3));
  y.choose(mean(y) > 0.0, {tanh, [&](Value h) { return Operand(h, at_line(4)) * slope; }},
           at_line(5));
  y.choose(mean(slope) > 0.0, {tanh, sigmoid}, at_line(6));
  const std::string text = tests::error_of<GraphError>([&] { g.validate(); });
  CAPTURE(text);
  CHECK(text.find("net.cc:4: mul cannot join the graph as \"choose/1/mul\"") != text.npos);
  CHECK(text.find("requires   what is computed in the forward pass, but a gradient comes after "
                  "it") != text.npos);
  CHECK(text.find("net.cc:6: choose cannot take the selector") != text.npos);
}

}  // namespace
}  // namespace metronome::after_update_test
