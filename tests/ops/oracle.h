// The oracle: libtorch's results for an op's case, and how results are compared with them.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/rules/gradient.h"
#include "graph/rules/lower.h"
#include "ops/reference/table.h"
#include "tests/ops/case_graph.h"
#include "tests/ops/parameter_gradients.h"
#include "tests/ops/tolerance.h"

namespace metronome {

/// An error's text, or nothing.
using Trouble = std::optional<std::string>;

/// The ways to run an op: as it is, or expanded where it cannot be or the target has no kernel; and
/// expanded, too, where it can be both.
inline std::vector<Settings> forms_of(const Op& op, bool (*has_kernel)(const Op&)) {
  Settings whole;
  whole.keeps = [has_kernel](const OpPtr& each, std::span<const Type>) {
    return each->has_rule<VjpRule>() && has_kernel(*each);
  };
  std::vector<Settings> forms = {whole};
  if (op.has_rule<VjpRule>() && op.has_rule<LowerRule>()) forms.emplace_back();
  return forms;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

inline Trouble compare(const Tensors& actual, const Tensors& expected, double allowed) {
  if (actual.size() != expected.size()) {
    return fmt::format("{} outputs, libtorch gives {}", actual.size(), expected.size());
  }
  for (std::size_t k = 0; k < actual.size(); ++k) {
    if (auto trouble = difference(actual[k], expected[k], allowed)) {
      return fmt::format("output {}: {}", k, *trouble);
    }
  }
  return std::nullopt;
}

/// The gradients by libtorch's autograd, in the order of the graph's parameter gradients.
inline Tensors autograd(const CaseGraph& c, const ir::Graph& graph) {
  Tensors operands;
  for (std::size_t i = 0; i < c.operands(); ++i) {
    operands.push_back(c.tensors[i].clone().requires_grad_(c.parameter[i]));
  }
  const Tensors outputs = reference(c.op(), operands);
  at::Tensor loss;
  std::size_t weights = c.operands();
  for (const at::Tensor& y : outputs) {
    if (!y.is_floating_point()) continue;
    const at::Tensor part = y.mul(c.tensors[weights++]).sum();
    loss = loss.defined() ? loss.add(part) : part;
  }
  loss.backward();
  Tensors gradients;
  for (const ParameterGradient& g : parameter_gradients(graph)) {
    const std::string& path = graph.storage(g.parameter).path;
    const auto i = std::find(c.names.begin(), c.names.end(), path) - c.names.begin();
    const at::Tensor& gradient = operands[i].grad();
    gradients.push_back(gradient.defined() ? gradient : at::zeros_like(operands[i]));
  }
  return gradients;
}

}  // namespace metronome
