#include "benchmarks/products.h"

#include <algorithm>
#include <vector>

#include "graph/ir/structural.h"
#include "ops/attention/attention.h"
#include "ops/matmul/matmul.h"

namespace metronome::benchmarks {
namespace {

// Nodes whose value depends on a trained parameter: through them a gradient flows.
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

// The products of a node. One whose left operand is stored transposed is taken for one that is not:
// no model declares one.
std::vector<Product> products_of(const ir::Graph& declared, const Node& node) {
  const auto operand = [&](std::size_t i) -> const Type& { return declared.type(node.inputs[i]); };
  if (node.op->as<Linear>() != nullptr) {
    const Type& x = operand(0);
    const std::int64_t in = x.shape.back();
    const std::int64_t out = node.types[0].shape.back();
    return {{.rows = x.numel() / in, .in = in, .out = out, .element = x.element}};
  }
  const auto batched = [&](std::int64_t in, std::int64_t out, bool in_out) {
    const Shape& y = node.types[0].shape;
    const std::int64_t rows = y[y.size() - 2];
    return Product{.rows = rows,
                   .in = in,
                   .out = out,
                   .element = node.types[0].element,
                   .batch = node.types[0].numel() / (rows * y.back()),
                   .weight_in_out = in_out};
  };
  if (const Matmul* const matmul = node.op->as<Matmul>()) {
    const Shape& weight = operand(1).shape;
    const std::int64_t in = weight[weight.size() - (matmul->transpose_b ? 1 : 2)];
    return {batched(in, node.types[0].shape.back(), !matmul->transpose_b)};
  }
  if (node.op->as<Attention>() != nullptr) {
    const Shape &key = operand(1).shape, &value = operand(2).shape;
    const std::int64_t keys = key[key.size() - 2];
    return {batched(key.back(), keys, false), batched(keys, value.back(), true)};
  }
  return {};
}

}  // namespace

std::map<Product, int> products_of(const Graph& declared) {
  const std::vector<bool> depends = depends_on_parameter(declared);
  std::map<Product, int> products;
  for (const Node& node : declared.data().nodes()) {
    bool gradient = false;
    std::size_t operand = 0;  // of a second product the left side is made of the first's operands
    for (Product product : products_of(declared.data(), node)) {
      gradient = gradient || depends[node.inputs[operand++].node];
      product.input_gradient = gradient;
      ++products[product];
    }
  }
  return products;
}

}  // namespace metronome::benchmarks
