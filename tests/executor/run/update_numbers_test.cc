// Numbers that an update makes beside parameters: the learning rate and norms of gradients.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/executor/plain_optimizer.h"
#include "tests/executor/targets.h"

namespace metronome::update_numbers_test {
namespace {

using tests::OnEveryTarget;
using tests::plain_options;
using tests::PlainOptimizer;

struct Net {
  explicit Net(const Optimizer& optimizer) {
    const Value y = x.through(linear(4)).through(tanh).through(linear(2));
    g.minimize(mean(square(y - 0.25)) * 10.0, optimizer);
    rate = g.learning_rate();
    norm = g.gradient_norm();
    clipped = g.clipped_gradient_norm();
    for (const char* path : {"linear/weight", "linear/bias", "linear_1/weight", "linear_1/bias"}) {
      gradients.push_back(g.gradient(g.parameter(path)));
    }
  }
  Graph g{"net"};
  Value x = g.input("x", f64, {5, 3});
  Value rate, norm, clipped;
  Values gradients;
};

void check(const Optimizer& optimizer, double clip_norm,
           const std::function<double(int step)>& rate_of) {
  const Net net(optimizer);
  OnEveryTarget runs(net.g);
  for (int step = 0; step < 5; ++step) {
    CAPTURE(step);
    runs.run({{net.x, at::linspace(-1, 2 - 0.1 * step, 15, at::kDouble).reshape({5, 3})}});
    double squares = 0;
    for (const Value& gradient : net.gradients) {
      squares += runs.replay().read(gradient).square().sum().item<double>();
    }
    const double norm = std::sqrt(squares);
    const double clipped = norm * std::min(1.0, clip_norm / (norm + 1e-6));
    for (Executable& e : runs.executables) {
      CHECK(e.read_scalar(net.rate) == doctest::Approx(rate_of(step)).epsilon(1e-12));
      CHECK(e.read_scalar(net.norm) == doctest::Approx(norm).epsilon(1e-12));
      CHECK(e.read_scalar(net.clipped) == doctest::Approx(clipped).epsilon(1e-12));
      CHECK(e.read("gradient_norm").item<double>() == e.read_scalar(net.norm));
    }
  }
}

TEST_CASE("the learning rate and the norms of an update are read on every target") {
  check(Adam{.lr = StepDecay{.lr = 0.1, .every = 2, .gamma = 0.5}, .clip_norm = 0.5}, 0.5,
        [](int step) { return 0.1 * std::pow(0.5, step / 2); });
  check(Sgd{.lr = 0.01, .clip_norm = 1e3}, 1e3, [](int) { return 0.01; });
  check(AdamW{.lr = 0.02}, INFINITY, [](int) { return 0.02; });
}

TEST_CASE("they change nothing of the step") {
  const Net told(Adam{.lr = 0.05, .clip_norm = 0.5});
  Graph plain("plain");
  const Value y = plain.input("x", f64, {5, 3}).through(linear(4)).through(tanh).through(linear(2));
  plain.minimize(mean(square(y - 0.25)) * 10.0, Adam{.lr = 0.05, .clip_norm = 0.5});
  Executable a = compile(told.g, cpu_replay(), plain_options());
  Executable b = compile(plain, cpu_replay(), plain_options());
  for (int step = 0; step < 4; ++step) {
    const at::Tensor x = at::linspace(-1, 2 - 0.1 * step, 15, at::kDouble).reshape({5, 3});
    a.run({{"x", x}}), b.run({{"x", x}});
  }
  for (const std::string& path : b.storages()) CHECK(a.get(path).equal(b.get(path)));
}

TEST_CASE("asked for twice it is one value; evaluation does not make it") {
  Net net(Sgd{.lr = 0.5});
  CHECK(net.g.learning_rate().id() == net.rate.id());
  CompileOptions options = plain_options();
  options.modes = {evaluate};
  Executable step = compile(net.g, cpu_replay(), options);
  step.evaluate({{net.x, at::ones({5, 3}, at::kDouble)}});
  CHECK_THROWS_WITH_AS(step.read(net.rate),
                       "graph \"net\": no step computes \"learning_rate\": it was compiled to "
                       "evaluate alone, which makes no gradients and no update; add mt::train to "
                       "CompileOptions::modes",
                       RunError);
}

void validate(const std::function<void(Graph&)>& declare) {
  Graph g("g");
  declare(g);
  g.validate();
}

Line at_line(int number) { return {"net.cc", number}; }

TEST_CASE("what cannot be told") {
  CHECK_THROWS_WITH_AS(validate([](Graph& g) {
                         g.output("w", g.parameter("w", {f64, {}}, ones()));
                         g.gradient_norm();
                       }),
                       "graph \"g\": gradient_norm() has no loss\n"
                       "  requires   one Graph::minimize(loss, optimizer)",
                       GraphError);
  CHECK_THROWS_WITH_AS(
      validate([](Graph& g) {
        const Value s = g.state("s", {f64, {}}, ones(), at_line(2));
        g.minimize(square(g.parameter("w", {f64, {}}, ones())), Sgd{});
        g.feed(s, g.learning_rate(at_line(3)), at_line(4));
      }),
      "net.cc:4: feed cannot take the value back\n"
      "  operand 0  f64[]  \"s\"              net.cc:2\n"
      "  operand 1  f64[]  \"learning_rate\"  net.cc:3\n"
      "  requires   what is computed in the forward pass, but a number of the update comes after "
      "it",
      GraphError);
  CHECK_THROWS_WITH_AS(validate([](Graph& g) {
                         const Value w = g.parameter("w", {f64, {}}, ones(), at_line(1));
                         g.minimize(square(w), Sgd{});
                         g.output("gradient_norm", w);
                         g.gradient_norm(at_line(3));
                       }),
                       "net.cc:3: gradient_norm cannot be kept\n"
                       "  operand 0  f64[]  \"w\"  net.cc:1\n"
                       "  requires   a name of its own, but it names another value already",
                       GraphError);
}

TEST_CASE("an optimizer that does not know its learning rate, or a norm") {
  const auto refusal = [](Value (Graph::*number)(Line)) {
    Graph g("g");
    g.minimize(square(g.parameter("w", {f64, {}}, ones())), PlainOptimizer{}, at_line(3));
    (g.*number)(at_line(4));
    return tests::error_of<GraphError>([&] { compile(g, cpu_replay(), plain_options()); });
  };
  CHECK(refusal(&Graph::learning_rate) ==
        "net.cc:3: plain cannot tell its learning_rate\n"
        "  requires   an optimizer with a member `lr`, a LearningRate");
  CHECK(refusal(&Graph::clipped_gradient_norm) ==
        "net.cc:3: plain cannot tell its clipped_gradient_norm\n"
        "  requires   an optimizer with a member function `norm`");
}

}  // namespace
}  // namespace metronome::update_numbers_test
