// Corners: operands at which a function's value or gradient is easily wrong, beside what is right,
// written by hand.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/executor/targets.h"

namespace metronome::tests {

/// Numbers in a shape.
struct Numbers {
  std::vector<double> numbers;
  Shape shape;

  Numbers(std::initializer_list<double> list) : numbers(list), shape{numbers_size()} {}
  Numbers(std::vector<double> list) : numbers(std::move(list)), shape{numbers_size()} {}
  Numbers(std::vector<double> list, Shape sizes)
      : numbers(std::move(list)), shape(std::move(sizes)) {}

 private:
  std::int64_t numbers_size() const { return static_cast<std::int64_t>(numbers.size()); }
};

/// A function of parameters, its value, and the gradient of the sum of it.
struct Corner {
  std::function<Value(Graph&, const Values&)> function;
  std::vector<Numbers> operands;
  std::vector<double> value;
  std::vector<std::vector<double>> gradients;
  Element element = f32;
  double tolerance = 2e-6;  ///< of each number, relative
};

inline bool is_near(double found, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected) || expected == 0) return found == expected;
  return std::abs(found - expected) <= tolerance * std::abs(expected);
}

/// The differences, a line for each; empty if all is right.
inline std::string differences(const char* what, const at::Tensor& found,
                               const std::vector<double>& expected, double tolerance) {
  const at::Tensor all = found.to(at::kDouble).contiguous().reshape({-1});
  const double* const numbers = all.data_ptr<double>();
  const std::vector<double> list(numbers, numbers + all.numel());
  bool equal = list.size() == expected.size();
  for (std::size_t i = 0; equal && i < list.size(); ++i) {
    equal = is_near(list[i], expected[i], tolerance);
  }
  return equal ? "" : fmt::format("{} is {}, not {}\n", what, list, expected);
}

/// The differences at a corner on a CPU, and on a device made of the host.
inline std::string wrong_at(const Corner& corner) {
  Graph g("corner");
  Values parameters;
  for (std::size_t i = 0; i < corner.operands.size(); ++i) {
    parameters.push_back(
        g.parameter(fmt::format("x{}", i), {corner.element, corner.operands[i].shape}, zeros()));
  }
  const Value result = corner.function(g, parameters);
  g.output("result", result);
  for (std::size_t i = 0; i < corner.gradients.size(); ++i) {
    g.output(fmt::format("d{}", i), g.gradient(parameters[i]));
  }
  g.minimize(sum(result), Sgd{.lr = 0});
  std::string wrong;
  for (const Target& target : {cpu_replay(), device_of_host()}) {
    Executable step = compile(g, target, plain_options());
    for (std::size_t i = 0; i < corner.operands.size(); ++i) {
      const at::Tensor given = at::tensor(corner.operands[i].numbers, at::kDouble)
                                   .reshape(corner.operands[i].shape)
                                   .to(corner.element == f32 ? at::kFloat : at::kDouble);
      step.set(fmt::format("x{}", i), given);
    }
    step.run();
    std::string here = differences("value", step.read("result"), corner.value, corner.tolerance);
    for (std::size_t i = 0; i < corner.gradients.size(); ++i) {
      const std::string name = fmt::format("d{}", i);
      here += differences(name.c_str(), step.read(name), corner.gradients[i], corner.tolerance);
    }
    if (!here.empty()) wrong += fmt::format("by {}:\n{}", step.report().target, here);
  }
  return wrong;
}

}  // namespace metronome::tests
