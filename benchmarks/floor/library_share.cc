#include "benchmarks/floor/library_share.h"

#include <ATen/core/Tensor.h>
#include <algorithm>

#include "benchmarks/floor/products.h"
#include "benchmarks/statistics.h"
#include "graph/emit/scope.h"
#include "ops/matmul/matmul.h"

namespace metronome::benchmarks {
namespace {

// The products of one layer, alone.
Graph graph_of(const CountedProduct& p) {
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return p.batch > 0 ? Shape{p.batch, rows, columns} : Shape{rows, columns};
  };
  Graph graph("products");
  const Value x = graph.input("x", p.element, matrix(p.rows, p.in));
  const Value gradient = graph.input("gradient", p.element, matrix(p.rows, p.out));
  const Value weight =
      graph.input("weight", p.element, p.weight_in_out ? matrix(p.in, p.out) : matrix(p.out, p.in));
  const Line here = Line::here();
  if (p.batch > 0) {
    graph.output("y", apply(Matmul{.transpose_b = !p.weight_in_out}, {x, weight}, here));
  } else {
    const Value bias = graph.input("bias", p.element, {p.out});
    graph.output("y", apply(Linear{}, {x, weight, bias}, here));
  }
  const Value &left = p.weight_in_out ? x : gradient, &right = p.weight_in_out ? gradient : x;
  graph.output("dw", apply(Matmul{.transpose_a = true}, {left, right}, here));
  if (p.input_gradient) {
    graph.output("dx", apply(Matmul{.transpose_b = p.weight_in_out}, {gradient, weight}, here));
  }
  return graph;
}

double milliseconds_of(const CountedProduct& product, int threads) {
  constexpr int kRounds = 15;
  constexpr double kRoundMs = 5;
  Executable step = compile(graph_of(product), cpu_replay(), {.threads = threads});
  for (const char* input : {"x", "gradient", "weight"}) step.input(input).fill_(0.5);
  if (product.batch == 0) step.input("bias").fill_(0.5);
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
