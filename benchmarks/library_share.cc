#include "benchmarks/library_share.h"

#include <algorithm>

#include "benchmarks/products.h"
#include "benchmarks/statistics.h"
#include "graph/emit/scope.h"
#include "ops/matmul/matmul.h"

namespace metronome::benchmarks {
namespace {

constexpr int kRounds = 15;
constexpr double kRoundMs = 5;

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
