// Elementwise functions and their gradients, as graphs compute them, at the edges of their types:
// beside the true function and beside libtorch.
#include "tests/ops/edge_values.h"
#include "ops/reference/table.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/elementwise/elementwise.h"
#include "tests/doctest.h"
#include "tests/ops/case_graph.h"
#include "tests/ops/edge_functions.h"
#include "tests/ops/edge_runners.h"
#include "tests/ops/parameter_gradients.h"

namespace metronome::edge_values_test {
namespace {

/// Operands and incoming gradient, element by element.
template <class T>
struct Points {
  std::vector<T> x, y, g;
  void add(T xi, T yi, T gi) { x.push_back(xi), y.push_back(yi), g.push_back(gi); }
};

/// One operand: every edge value with gradients of many sizes, all sizes with two. Two operands:
/// all pairs of edge values.
template <class T>
Points<T> points_of(int operands) {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T small = std::numeric_limits<T>::min() / 100, big = std::numeric_limits<T>::max() / 3;
  Points<T> points;
  const std::vector<T> edges = edge_values<T>();
  for (const T x : edges) {
    if (operands == 1) {
      for (const T g : {T(1), T(-0.3), small, big, T(1e-20), T(1e20), T(0), infinity, nan}) {
        points.add(x, T(1), g);
      }
      continue;
    }
    for (const T y : edges) {
      for (const T g : {T(1), T(-0.3), T(1e-20), T(1e20), nan}) points.add(x, y, g);
    }
  }
  if (operands > 1) return points;
  for (const T x : all_sizes<T>()) {
    for (const T g : {T(1), T(-0.3)}) points.add(x, T(1), g);
  }
  return points;
}

template <class T>
at::Tensor tensor_of(const std::vector<T>& numbers) {
  const auto type = sizeof(T) == 4 ? at::kFloat : at::kDouble;
  return at::from_blob(const_cast<T*>(numbers.data()), {static_cast<std::int64_t>(numbers.size())},
                       at::TensorOptions(type))
      .clone();
}

/// A row's value, and its gradient by each operand.
using Results = std::vector<at::Tensor>;
using Feed = std::map<std::string, at::Tensor>;

template <class T>
Results by_graph(const Elementwise& op, const Points<T>& points, const Runner& run) {
  const Element element = sizeof(T) == 4 ? f32 : f64;
  const auto n = static_cast<std::int64_t>(points.x.size());
  Graph graph("edges");
  Values operands;
  Feed feed = {{"g", tensor_of(points.g)}};
  for (int i = 0; i < row_of(op.function).operands; ++i) {
    const std::string name = "x" + std::to_string(i);
    operands.push_back(graph.parameter(name, Type{element, {n}}, {}));
    feed[name] = tensor_of(i == 0 ? points.x : points.y);
  }
  const Value out = apply(make_op(op), operands, Line::here())[0];
  graph.output("out", out);
  graph.minimize(sum(out * graph.input("g", element, {n})), Sgd{});
  graph.validate();
  const ir::Graph whole = passes::differentiate(passes::lower(graph, {}), {});
  std::vector<ValueId> values;
  for (const Readable& r : whole.readables()) {
    if (r.name == "out") values.push_back(r.value);
  }
  for (const ParameterGradient& g : parameter_gradients(whole)) values.push_back(g.value);
  return run(whole, feed, values);
}

template <class T>
Results by_libtorch(const Elementwise& op, const Points<T>& points) {
  Tensors operands = {tensor_of(points.x).requires_grad_()};
  if (row_of(op.function).operands > 1) operands.push_back(tensor_of(points.y).requires_grad_());
  const at::Tensor out = reference(op, operands)[0];
  out.backward(tensor_of(points.g));
  Results results = {out.detach()};
  for (const at::Tensor& x : operands) results.push_back(x.grad());
  return results;
}

template <class T>
void check_row(const ExactRow<Wider<T>>& row, const Runner& run) {
  const Elementwise op{row.function, row.a, row.b};
  const Points<T> points = points_of<T>(row.operands());
  const Results ours = by_graph(op, points, run), theirs = by_libtorch(op, points);
  const char* const parts[] = {"", " by x", " by y"};
  for (std::size_t k = 0; k < (row.by_x == nullptr ? 1 : ours.size()); ++k) {
    Tally<T> tally(row.name() + parts[k]);
    const T* const found = ours[k].data_ptr<T>();
    const T* const expected = theirs[k].data_ptr<T>();
    for (std::size_t i = 0; i < points.x.size(); ++i) {
      const T x = points.x[i], y = points.y[i], g = points.g[i];
      const Wider<T> a = row.a, b = row.b;
      // A gradient of 0 stays 0, whatever the slope is.
      const Wider<T> exact = k == 0   ? row.value(x, y, a, b)
                             : g == 0 ? 0
                             : k == 1 ? row.by_x(g, x, y, a, b)
                                      : row.by_y(g, x, y, a, b);
      tally.add(size_key(x), found[i], expected[i], exact,
                fmt::format("({:.9g}, {:.9g}) g {:.9g}", x, y, g),
                k == 0 || !std::isfinite(g) ? 0 : std::abs(g) * Wider<T>(row.steep));
    }
    const std::string trouble = tally.judge();
    INFO(trouble);
    CHECK(trouble.empty());
  }
}

}  // namespace

TEST_CASE("elementwise rows are as near to the true function as libtorch's, f32") {
  print_heading("f32, " + std::string(cpu_table().isa()));
  for (const auto& row : exact_rows<double>()) check_row<float>(row, on_cpu);
}

TEST_CASE("elementwise rows are as near to the true function as libtorch's, f64") {
  print_heading("f64, " + std::string(cpu_table().isa()));
  for (const auto& row : exact_rows<long double>()) check_row<double>(row, on_cpu);
}

TEST_CASE("the device's rows are as near to the true function as libtorch's") {
  HostDevice device;
  print_heading("f32, a device made of the host");
  for (const auto& row : exact_rows<double>()) check_row<float>(row, on(device));
}

TEST_CASE("every row with a gradient is compared with the true function") {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const FunctionRow& row = kRows[i];
    const bool rounds = row.elements == Elements::floating || row.elements == Elements::numbers;
    const bool gradient = row.name.find("_grad") != std::string_view::npos;
    if (!rounds || gradient) continue;
    CAPTURE(row.name);
    bool found = false;
    for (const auto& exact : exact_rows<double>()) found |= exact.function == Function(i);
    CHECK(found);
  }
}

}  // namespace metronome::edge_values_test
