// Distributions beside torch.distributions: values and gradients that it gave
// (expected_distributions.py).
#include <ATen/ops/linspace.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "ops/losses/distributions.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/steps/expected_distributions.h"

namespace metronome::expected_distributions_test {
namespace {

using namespace distributions;

at::Tensor line(double start, double end, at::IntArrayRef sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return at::linspace(start, end, count, at::kDouble).reshape(sizes);
}

/// A graph's own parts: first those of its parameters by name, then what is computed of them.
struct Declared {
  std::map<std::string, at::Tensor> parameters;
  std::vector<std::string> order;
  std::function<Values(const std::map<std::string, Value>&, Graph&)> parts;
};

Value constant_of(Graph& g, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return g.constant({flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()},
                    {f64, tensor.sizes().vec()});
}

void append(std::vector<double>& numbers, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  numbers.insert(numbers.end(), flat.const_data_ptr<double>(),
                 flat.const_data_ptr<double>() + flat.numel());
}

void check(const std::string& name, const Declared& declared) {
  CAPTURE(name);
  constexpr double kWeights[] = {1, 0.3, 0.7};
  const std::vector<double>& expected = kExpectedDistributions.at(name);
  for (const Target& target : {cpu_replay(), eager()}) {
    Graph g("beside");
    std::map<std::string, Value> parameters;
    for (const auto& [path, tensor] : declared.parameters) {
      parameters[path] = g.parameter(path, {f64, tensor.sizes().vec()}, zeros());
    }
    const Values parts = declared.parts(parameters, g);
    Value loss = g.constant({0}, {f64, {}});
    for (std::size_t i = 0; i < parts.size(); ++i) {
      g.output("part" + std::to_string(i), parts[i]);
      loss = loss + kWeights[i] * sum(parts[i]);
    }
    g.minimize(loss, Sgd{.lr = 0});
    Values gradients;
    for (const std::string& path : declared.order) {
      gradients.push_back(g.gradient(parameters.at(path)));
    }
    Executable step = compile(g, target, tests::plain_options());
    for (const auto& [path, tensor] : declared.parameters) step.set(path, tensor);
    step.run();
    std::vector<double> made;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      append(made, step.read("part" + std::to_string(i)));
    }
    for (const Value& gradient : gradients) append(made, step.read(gradient));
    REQUIRE(made.size() == expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(made[i] - expected[i]) <= 1e-11 * std::max(1e-3, std::abs(expected[i])));
    }
  }
}

TEST_CASE("densities, entropies, divergences and gradients are torch.distributions'") {
  const at::Tensor loc = line(-3, 3, {2, 4}), scale = line(-2, 2, {2, 4}).exp();
  const at::Tensor value = line(4, -4, {2, 4});
  const auto other_loc = [](Graph& g) { return constant_of(g, line(1, -2, {2, 4})); };
  const auto other_scale = [](Graph& g) { return constant_of(g, line(1.5, -1, {2, 4}).exp()); };
  const Declared normal{
      {{"loc", loc}, {"scale", scale}}, {"loc", "scale"}, [&](const auto& of, Graph& g) -> Values {
        const Normal p{of.at("loc"), of.at("scale")}, q{other_loc(g), other_scale(g)};
        return {p.log_prob(constant_of(g, value)), p.entropy(), kl_divergence(p, q)};
      }};
  check("normal", normal);
  check("diagonal_normal",
        {normal.parameters, normal.order, [&](const auto& of, Graph& g) -> Values {
           const DiagonalNormal p{of.at("loc"), of.at("scale")}, q{other_loc(g), other_scale(g)};
           return {p.log_prob(constant_of(g, value)), p.entropy(), kl_divergence(p, q)};
         }});
  check("squashed_normal",
        {normal.parameters, normal.order, [&](const auto& of, Graph& g) -> Values {
           const SquashedNormal p{of.at("loc"), of.at("scale")};
           return {p.log_prob(constant_of(g, (value / 4).tanh()))};
         }});

  const at::Tensor logits = line(-9, 7, {3, 5}).sin() * 4;
  const auto classes = [](Graph& g) { return g.constant({0, 3, 2}, {i64, {3}}); };
  check("categorical", {{{"logits", logits}}, {"logits"}, [&](const auto& of, Graph& g) -> Values {
                          const Categorical p{of.at("logits")},
                              q{constant_of(g, line(3, -2, {3, 5}))};
                          return {p.log_prob(classes(g)), p.entropy(), kl_divergence(p, q)};
                        }});
  check("masked_categorical",
        {{{"logits", logits}}, {"logits"}, [&](const auto& of, Graph& g) -> Values {
           const Value mask =
               g.constant({1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1}, {bool_, {3, 5}});
           const Categorical p{of.at("logits"), mask};
           return {p.log_prob(classes(g)), p.entropy()};
         }});
  check("bernoulli",
        {{{"logits", line(-30, 30, {2, 4})}}, {"logits"}, [](const auto& of, Graph& g) -> Values {
           const Bernoulli p{of.at("logits")}, q{constant_of(g, line(2, -1, {2, 4}))};
           const Value bits = g.constant({1, 0, 1, 0, 0, 1, 1, 0}, {f64, {2, 4}});
           return {p.log_prob(bits), p.entropy(), kl_divergence(p, q)};
         }});
}

}  // namespace
}  // namespace metronome::expected_distributions_test
