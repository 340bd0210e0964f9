// A function of values beside the same function of tensors: results and gradients, f32 and f64.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/passes/lower.h"
#include "graph/passes/training/differentiate.h"
#include "ops/expr/functions.h"
#include "ops/optimizers/optimizers.h"
#include "tests/error_of.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/parameter_gradients.h"
#include "tests/ops/tolerance.h"

namespace metronome {

/// An operand: floating ones are given as f64 and become the type under test.
struct Given {
  at::Tensor tensor;
  bool trained = true;  ///< false: no gradient is asked for, as of integers
};

using OfValues = std::function<Value(const Values&)>;
using OfTensors = std::function<at::Tensor(const Tensors&)>;

/// The result, and the gradient of sum(result * g) by each trained operand; none where none flows.
struct Computed {
  at::Tensor out;
  std::vector<std::optional<at::Tensor>> gradients;
};

inline at::Tensor as(const at::Tensor& x, Element element) {
  return x.is_floating_point() ? x.to(to_torch(element)).contiguous() : x.contiguous();
}

/// `weight_of` makes g of the result's sizes.
inline Computed by_graph(const OfValues& function, const std::vector<Given>& operands,
                         const std::function<at::Tensor(at::IntArrayRef)>& weight_of,
                         Element element) {
  Graph graph("beside");
  Values values;
  bool trained = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const at::Tensor x = as(operands[i].tensor, element);
    const Type type{from_torch(x.scalar_type()), x.sizes().vec()};
    const std::string name = "x" + std::to_string(i);
    const bool by = operands[i].trained && x.is_floating_point();
    trained = trained || by;
    values.push_back(by ? graph.parameter(name, type, {})
                        : graph.input(name, type.element, type.shape));
  }
  const Value out = function(values);
  graph.output("out", out);
  if (trained) graph.minimize(sum(out * graph.input("g", element, out.shape())), Sgd{});
  graph.validate();
  const ir::Graph lowered = passes::lower(graph, {});
  const ir::Graph whole = trained ? passes::differentiate(lowered, {}) : lowered;
  Interpreter run(whole);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    run.set("x" + std::to_string(i), as(operands[i].tensor, element));
  }
  if (trained) run.set("g", as(weight_of(out.shape()), element));
  run.run();
  Computed computed;
  computed.gradients.resize(operands.size());
  for (const Readable& r : whole.readables()) {
    if (r.name == "out") computed.out = run.tensor(r.value).clone();
  }
  if (!trained) return computed;
  for (const ParameterGradient& g : parameter_gradients(whole)) {
    const std::string& path = whole.storage(g.parameter).path;
    computed.gradients[std::stoul(path.substr(1))] = run.tensor(g.value).clone();
  }
  return computed;
}

inline Computed by_libtorch(const OfTensors& function, const std::vector<Given>& operands,
                            const std::function<at::Tensor(at::IntArrayRef)>& weight_of,
                            Element element) {
  Tensors tensors;
  bool trained = false;
  for (const Given& given : operands) {
    at::Tensor x = as(given.tensor, element).clone();
    if (given.trained && x.is_floating_point()) x.requires_grad_(), trained = true;
    tensors.push_back(x);
  }
  const at::Tensor out = function(tensors);
  Computed computed{out.detach(), {}};
  if (trained) out.backward(as(weight_of(out.sizes()), element));
  for (const at::Tensor& x : tensors) {
    computed.gradients.push_back(x.grad().defined() ? std::optional(x.grad()) : std::nullopt);
  }
  return computed;
}

inline at::Tensor some_weights(at::IntArrayRef sizes) {
  return at::rand(sizes, at::TensorOptions(at::kDouble)) + 0.5;
}

/// Returns what differs from libtorch in f32 or in f64, by the table of tolerances; empty if
/// nothing does. Trained operands that libtorch has a gradient for must have one here.
inline std::string beside_libtorch(const OfValues& ours, const OfTensors& theirs,
                                   const std::vector<Given>& operands, Tolerance allowed = kSums) {
  for (const Element element : {f32, f64}) {
    const double most = element == f64 ? allowed.f64 : allowed.f32;
    at::Tensor weight;  // the same for both
    const auto weight_of = [&](at::IntArrayRef sizes) {
      if (!weight.defined()) weight = some_weights(sizes);
      return weight;
    };
    const Computed found = by_graph(ours, operands, weight_of, element);
    const Computed expected = by_libtorch(theirs, operands, weight_of, element);
    const std::string type(name_of(element));
    if (const auto trouble = difference(found.out, expected.out, most)) {
      return type + ": " + *trouble;
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!expected.gradients[i]) continue;
      const std::string by = fmt::format("{}: gradient of operand {}: ", type, i);
      if (!found.gradients[i]) return by + "none";
      if (const auto trouble = difference(*found.gradients[i], *expected.gradients[i], most)) {
        return by + *trouble;
      }
    }
  }
  return "";
}

/// U(low, high), f64.
inline at::Tensor numbers_in(double low, double high, std::vector<std::int64_t> sizes) {
  return at::rand(sizes, at::TensorOptions(at::kDouble)) * (high - low) + low;
}
inline at::Tensor numbers(const std::vector<double>& x) {
  return at::tensor(x, at::TensorOptions(at::kDouble));
}
inline at::Tensor wholes(const std::vector<std::int64_t>& x) {
  return at::tensor(x, at::TensorOptions(at::kLong));
}

/// The report on what `declare` does wrong, or "nothing"; inputs are made at "model.cc:10".
inline std::string report(const std::function<void(Graph&)>& declare) {
  Graph g("wrong");
  declare(g);
  return tests::error_of<GraphError>([&] { g.validate(); });
}
constexpr Line kHere{"model.cc", 30};
inline Value input(Graph& g, const char* name, Element element, const Shape& shape) {
  return g.input(name, element, shape, {"model.cc", 10});
}

}  // namespace metronome
