#include "benchmarks/floor/products.h"

#include <algorithm>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/structural.h"
#include "ops/attention/attention.h"
#include "ops/matmul/matmul.h"
#include "ops/recurrent/recurrent.h"

namespace metronome::benchmarks {
namespace {

// Each layer and direction has the input product of all steps and a hidden product of each step.
std::vector<CountedProduct> products_of(const RecurrentSequence& op, const ir::Graph& declared,
                                        const Node& node, const std::vector<bool>& depends) {
  const Type& x = declared.type(node.inputs[0]);
  const std::int64_t steps = x.shape[op.batch_first ? 1 : 0],
                     rows = x.shape[op.batch_first ? 0 : 1];
  const std::int64_t hidden = node.types[1].shape.back();
  const std::int64_t gates = recurrent::gates_of(op.kind) * hidden;
  std::vector<CountedProduct> products;
  for (std::int64_t k = 0; k < op.layers * op.directions(); ++k) {
    const bool first = k < op.directions();
    products.push_back({.rows = steps * rows,
                        .in = first ? x.shape.back() : op.directions() * hidden,
                        .out = gates,
                        .element = x.element,
                        .input_gradient = !first || depends[node.inputs[0].node]});
    CountedProduct step{.rows = rows, .in = hidden, .out = gates, .element = x.element};
    step.input_gradient = op.first_hidden && depends[node.inputs[1].node];
    products.push_back(step);
    step.input_gradient = true;
    products.insert(products.end(), static_cast<std::size_t>(steps - 1), step);
  }
  return products;
}

// The products of a node. One whose left operand is stored transposed is taken for one that is not:
// no model declares one.
std::vector<CountedProduct> products_of(const ir::Graph& declared, const Node& node,
                                        const std::vector<bool>& depends) {
  const auto operand = [&](std::size_t i) -> const Type& { return declared.type(node.inputs[i]); };
  const auto trained = [&](std::size_t i) -> bool { return depends[node.inputs[i].node]; };
  if (node.op->as<Linear>() != nullptr) {
    const Type& x = operand(0);
    const std::int64_t in = x.shape.back();
    const std::int64_t out = node.types[0].shape.back();
    return {{.rows = x.numel() / in,
             .in = in,
             .out = out,
             .element = x.element,
             .input_gradient = trained(0)}};
  }
  const auto batched = [&](std::int64_t in, std::int64_t out, bool in_out, bool gradient) {
    const Shape& y = node.types[0].shape;
    const std::int64_t rows = y[y.size() - 2];
    return CountedProduct{.rows = rows,
                          .in = in,
                          .out = out,
                          .element = node.types[0].element,
                          .input_gradient = gradient,
                          .batch = node.types[0].numel() / (rows * y.back()),
                          .weight_in_out = in_out};
  };
  if (const Matmul* const matmul = node.op->as<Matmul>()) {
    const Shape& weight = operand(1).shape;
    const std::int64_t in = weight[weight.size() - (matmul->transpose_b ? 1 : 2)];
    return {batched(in, node.types[0].shape.back(), !matmul->transpose_b, trained(0))};
  }
  if (node.op->as<Attention>() != nullptr) {
    const Shape &key = operand(1).shape, &value = operand(2).shape;
    const std::int64_t keys = key[key.size() - 2];
    return {batched(key.back(), keys, false, trained(0)),
            batched(keys, value.back(), true, trained(0) || trained(1))};
  }
  if (const RecurrentSequence* const sequence = node.op->as<RecurrentSequence>()) {
    return products_of(*sequence, declared, node, depends);
  }
  return {};
}

}  // namespace

std::vector<bool> depends_on_parameter(const Graph& graph) {
  std::vector<bool> depends(graph.data().nodes().size());
  for (std::size_t i = 0; i < depends.size(); ++i) {
    const Node& node = graph.data().nodes()[i];
    const Read* read = node.op->as<Read>();
    depends[i] = (read != nullptr && graph.data().storage(read->storage).trainable) ||
                 std::ranges::any_of(node.inputs, [&](ValueId id) { return depends[id.node]; });
  }
  return depends;
}

std::map<CountedProduct, int> products_of(const Graph& declared) {
  const std::vector<bool> depends = depends_on_parameter(declared);
  std::map<CountedProduct, int> products;
  for (const Node& node : declared.data().nodes()) {
    for (const CountedProduct& product : products_of(declared.data(), node, depends))
      ++products[product];
  }
  return products;
}

}  // namespace metronome::benchmarks
