#include "benchmarks/products.h"

#include <algorithm>
#include <vector>

#include "graph/ir/structural.h"
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

}  // namespace

std::map<Product, int> products_of(const Graph& declared) {
  const std::vector<bool> depends = depends_on_parameter(declared);
  std::map<Product, int> products;
  for (const Node& node : declared.data().nodes()) {
    if (node.op->as<Linear>() == nullptr) continue;
    const Type& x = declared.data().type(node.inputs[0]);
    const Type& weight = declared.data().type(node.inputs[1]);
    const std::int64_t in = weight.shape[1];
    ++products[{x.numel() / in, in, weight.shape[0], x.element, depends[node.inputs[0].node]}];
  }
  return products;
}

}  // namespace metronome::benchmarks
