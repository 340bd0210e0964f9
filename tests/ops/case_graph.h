// A case of an op as a graph and as tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/passes/lower.h"
#include "graph/passes/training/differentiate.h"
#include "ops/expr/functions.h"
#include "ops/optimizers/optimizers.h"
#include "ops/reference/elements.h"
#include "ops/rules/case.h"
#include "tests/aten.h"

namespace metronome {

/// Numbers in [0, 1) that are the same on every machine.
class Numbers {
 public:
  double next() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 generator_{20240229};
};

inline at::Tensor filled(const Type& type, const Fillings& fill, Numbers& numbers) {
  at::Tensor result = at::empty(type.shape, at::TensorOptions(at::kDouble));
  double* data = result.data_ptr<double>();
  for (std::int64_t i = 0; i < type.numel(); ++i) {
    const double number = fill.low + (fill.high - fill.low) * numbers.next();
    switch (fill.kind) {
      case Fillings::Kind::uniform:
        data[i] = number;
        break;
      case Fillings::Kind::integers:
      case Fillings::Kind::ascending:
        data[i] = std::floor(number);
        break;
      case Fillings::Kind::booleans:
        data[i] = numbers.next() < 0.5;
        break;
    }
  }
  if (fill.kind == Fillings::Kind::ascending) std::sort(data, data + type.numel());
  return result.to(to_torch(type.element));
}

/// One op on operands "x0", "x1", ...: those whose gradient is checked are parameters, the others
/// inputs; with a loss that weighs every element of every floating output by "w0", "w1", ...
struct CaseGraph {
  CaseGraph(const Case& c, Element element, bool with_loss) : graph("case") {
    Numbers numbers;
    Values operands;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      Type type = c.inputs[i].type;
      if (type.element == f32) type.element = element;
      const bool trained =
          with_loss && is_floating(type.element) && c.inputs[i].fill.differentiable;
      const std::string name = "x" + std::to_string(i);
      operands.push_back(trained ? graph.parameter(name, type, {})
                                 : graph.input(name, type.element, type.shape));
      names.push_back(name);
      tensors.push_back(filled(type, c.inputs[i].fill, numbers));
      parameter.push_back(trained);
    }
    outputs = add(c.op, operands);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      graph.output("y" + std::to_string(k), outputs[k]);
    }
    if (with_loss) add_loss(numbers);
    graph.validate();
  }

  std::size_t operands() const { return parameter.size(); }
  const Op& op() const { return *outputs[0].node().op; }

  Graph graph;
  Values outputs;                  ///< visible ones
  std::vector<std::string> names;  ///< of operands, then of weights
  std::vector<at::Tensor> tensors;
  std::vector<bool> parameter;  ///< [operand]

 private:
  Values add(const OpPtr& op, const Values& operands) {
    if (operands.empty())
      return {graph.value(graph.emitter().graph.append({op, {}, {}, "case", Line{}, {}}))};
    Types types;
    for (const Value& v : operands) types.push_back(v.type());
    const std::size_t count = op->infer(types).size();
    Values all = apply(op, operands, Line::here(), count);
    all.resize(count - op->saved());
    return all;
  }

  void add_loss(Numbers& numbers) {
    Value loss;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Type& type = outputs[k].type();
      if (!is_floating(type.element)) continue;
      const std::string name = "w" + std::to_string(k);
      const Value weights = graph.input(name, type.element, type.shape);
      names.push_back(name);
      tensors.push_back(filled(type, {.low = 0.5, .high = 1.5}, numbers));
      const Value part = sum(outputs[k] * weights);
      loss = loss.present() ? loss + part : part;
    }
    graph.minimize(loss, Sgd{});
  }
};

}  // namespace metronome
