#include "benchmarks/library_share.h"

#include <algorithm>
#include <compare>
#include <map>
#include <vector>

#include "benchmarks/statistics.h"
#include "graph/scope.h"
#include "graph/structural.h"
#include "ops/matmul.h"

namespace metronome::benchmarks {
namespace {

constexpr int kRounds = 15;
constexpr double kRoundMs = 5;

// y [rows, out] = x [rows, in] W^T, and its gradients.
struct Product {
  std::int64_t rows = 0, in = 0, out = 0;
  Element element = f32;
  bool input_gradient = false;

  auto operator<=>(const Product&) const = default;
};

// Nodes whose value depends on a trained parameter: through them a gradient flows.
std::vector<bool> depends_on_parameter(const Graph& graph) {
  std::vector<bool> depends(graph.nodes().size());
  for (std::size_t i = 0; i < depends.size(); ++i) {
    const Node& node = graph.nodes()[i];
    const Read* read = node.op->as<Read>();
    depends[i] = (read != nullptr && graph.storage(read->storage).trainable) ||
                 std::ranges::any_of(node.inputs, [&](ValueId id) { return depends[id.node]; });
  }
  return depends;
}

std::map<Product, int> products_of(const Graph& graph) {
  const std::vector<bool> depends = depends_on_parameter(graph);
  std::map<Product, int> products;
  for (const Node& node : graph.nodes()) {
    if (node.op->as<Linear>() == nullptr) continue;
    const Type& x = graph.type(node.inputs[0]);
    const Type& weight = graph.type(node.inputs[1]);
    const std::int64_t in = weight.shape[1];
    ++products[{x.numel() / in, in, weight.shape[0], x.element, depends[node.inputs[0].node]}];
  }
  return products;
}

// The products of one layer, alone.
Graph graph_of(const Product& p) {
  Graph graph("products");
  const Value x = graph.input("x", p.element, {p.rows, p.in});
  const Value gradient = graph.input("gradient", p.element, {p.rows, p.out});
  const Value weight = graph.input("weight", p.element, {p.out, p.in});
  const Value bias = graph.input("bias", p.element, {p.out});
  const Line here = Line::here();
  graph.output("y", apply(Linear{}, {x, weight, bias}, here));
  graph.output("dw", apply(Matmul{.transpose_a = true}, {gradient, x}, here));
  if (p.input_gradient) graph.output("dx", apply(Matmul{}, {gradient, weight}, here));
  return graph;
}

double milliseconds_of(const Product& product, int threads) {
  Executable step = compile(graph_of(product), cpu_replay(), {.threads = threads});
  for (const char* input : {"x", "gradient", "weight", "bias"}) step.input(input).fill_(0.5);
  const auto take = [&](int steps) {
    for (int i = 0; i < steps; ++i) step.run();
  };
  take(2);
  const double once = milliseconds([&] { take(1); });
  const int steps = std::max(1, static_cast<int>(kRoundMs / once));
  Samples samples;
  for (int round = 0; round < kRounds; ++round) {
    samples.values.push_back(milliseconds([&] { take(steps); }) / steps);
  }
  return samples.median();
}

}  // namespace

double library_ms(const Graph& declared, int threads) {
  double total = 0;
  for (const auto& [product, count] : products_of(declared)) {
    total += count * milliseconds_of(product, threads);
  }
  return total;
}

}  // namespace metronome::benchmarks
