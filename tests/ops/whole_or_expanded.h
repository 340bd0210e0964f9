// A case of an op that can be expanded, with its gradients, run whole and run expanded.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "graph/passes/lower.h"
#include "graph/passes/training/differentiate.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/ops/case_graph.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/parameter_gradients.h"

namespace metronome {

/// The first result, then the gradients of all operands; ops of that name run whole if asked for.
inline std::vector<at::Tensor> numbers_of(const CaseGraph& c, std::string_view op, bool whole,
                                          int threads = 1) {
  Settings settings;
  settings.keeps = [=](const OpPtr& each, std::span<const Type>) {
    return whole && each->name() == op;
  };
  const ir::Graph graph = passes::differentiate(passes::lower(c.graph, settings), {});
  Interpreter run(graph, threads);
  for (std::size_t i = 0; i < c.names.size(); ++i) run.set(c.names[i], c.tensors[i]);
  run.run();
  std::vector<at::Tensor> all = {run.tensor(graph.readables()[0].value).clone()};
  for (const ParameterGradient& g : parameter_gradients(graph)) {
    all.push_back(run.tensor(g.value).clone());
  }
  return all;
}

/// The bits of all cases of an op, whole, are the same with any number of threads: those of the
/// result and of the gradients of the first operands, which its own kernels make, so many in all.
template <class Op, class Count>
void check_bits_by_threads(const Count& numbers) {
  for (const Case& c : Op::cases()) {
    for (const Element element : {f32, f64}) {
      const CaseGraph graph(c, element, true);
      const auto one = numbers_of(graph, Op::name, true, 1);
      for (const int threads : {2, 3, 7}) {
        const auto several = numbers_of(graph, Op::name, true, threads);
        for (std::size_t i = 0; i < numbers(c); ++i) {
          INFO(c.name, ", ", threads, " threads, number ", i);
          CHECK(one[i].equal(several[i]));
        }
      }
    }
  }
}

/// The op's case of that name.
template <class Op>
Case case_of(std::string_view name) {
  for (Case& c : Op::cases()) {
    if (c.name == name) return c;
  }
  throw std::runtime_error("no such case");
}

}  // namespace metronome
