// Rows of 1 to 34 elements, which are computed many at once: folded, folded as columns, and added
// to what is repeated along them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "graph/emit/scope.h"
#include "graph/passes/lower.h"
#include "ops/expr/functions.h"
#include "ops/language/derived.h"
#include "ops/reduce/reduce.h"
#include "tests/doctest.h"
#include "tests/ops/interpreter.h"

namespace metronome::short_rows_test {
namespace {

constexpr std::int64_t kLongest = 34;

at::Tensor numbers(Element element, const Shape& shape) {
  if (!is_floating(element)) return at::randint(-1000, 1000, shape, to_torch(element));
  return at::randn(shape, to_torch(element));
}

/// The kinds of reductions over a dimension, each by its name.
void declare(Graph& g, Value x, std::int64_t axis = -1) {
  g.output("sum", sum(x, {axis}));
  g.output("max", max(x, {axis}));
  g.output("min", min(x, {axis}));
  if (!is_floating(x.element())) return;
  g.output("mean", mean(x, {axis}));
  g.output("squares", apply(Reduce{Reduce::Kind::sum_squares, {axis < 0 ? 1 : axis}}, {x}, Line{}));
  g.output("norm", norm(x, 2, {axis}));
}

at::Tensor expected(const std::string& name, const at::Tensor& x, std::int64_t axis = -1) {
  const at::Tensor wide = x.is_floating_point() ? x.to(at::kDouble) : x;
  if (name == "sum") return wide.sum(axis);
  if (name == "max") return wide.amax(axis);
  if (name == "min") return wide.amin(axis);
  if (name == "mean") return wide.mean(axis);
  if (name == "squares") return wide.square().sum(axis);
  return at::linalg_vector_norm(wide, 2, axis);
}

/// Says how far numbers lie from libtorch's f64, or that whole ones are others; empty: all is
/// right.
std::string difference(const at::Tensor& found, const at::Tensor& right, double terms = 1) {
  if (!found.is_floating_point())
    return at::equal(found, right.to(found.scalar_type())) ? "" : "other numbers";
  const double epsilon = found.scalar_type() == at::kFloat ? 0x1p-23 : 0x1p-52;
  const at::Tensor apart = (found.to(at::kDouble) - right).abs();
  const double most = apart.max().item<double>();
  // A sum may cancel; its terms are of size 1.
  return most <= 64 * terms * epsilon ? "" : fmt::format("{} apart", most);
}

TEST_CASE("reductions of short rows, whole blocks of them and rests") {
  at::manual_seed(3);
  for (const Element element : {f32, f64, i32, i64}) {
    for (std::int64_t n = 1; n <= kLongest; ++n) {
      for (const std::int64_t rows : {1, 7, 16, 17, 67}) {
        Graph g("rows");
        declare(g, g.input("x", element, {rows, n}));
        g.validate();
        const ir::Graph graph = passes::lower(g, {});
        const at::Tensor x = numbers(element, {rows, n});
        for (const bool views : {false, true}) {
          Interpreter run(graph, 1, views);
          run.set("x", x);
          run.run();
          for (const Readable& r : graph.readables()) {
            CAPTURE(fmt::format("{} of {} [{}, {}]", r.name, name_of(element), rows, n));
            CHECK(difference(run.tensor(r.value), expected(r.name, x)) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("sums of few long columns, whose last rows fill no vector") {
  at::manual_seed(5);
  constexpr std::int64_t kRows = 4099;
  for (const Element element : {f32, f64, i32, i64}) {
    for (std::int64_t n = 1; n <= kLongest; ++n) {
      Graph g("columns");
      declare(g, g.input("x", element, {kRows, n}), 0);
      g.validate();
      const ir::Graph graph = passes::lower(g, {});
      const at::Tensor x = numbers(element, {kRows, n});
      std::map<std::string, at::Tensor> by_one;
      for (const int threads : {1, 3}) {
        Interpreter run(graph, threads, true);
        run.set("x", x);
        run.run();
        for (const Readable& r : graph.readables()) {
          CAPTURE(fmt::format("{} of {} [{}, {}]", r.name, name_of(element), kRows, n));
          const at::Tensor found = run.tensor(r.value).clone();
          // Up to 4,099 terms of size 1.
          const at::Tensor right = expected(r.name, x, 0);
          CHECK(difference(found, right, 256) == "");
          if (threads == 1) by_one[r.name] = found;
          CHECK(at::equal(found, by_one[r.name]));
        }
      }
    }
  }
}

TEST_CASE("a NaN, an infinity and what leaves f32 stay in their row") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t n = 2; n <= kLongest; ++n) {
    Graph g("rows");
    declare(g, g.input("x", f32, {40, n}));
    g.validate();
    const ir::Graph graph = passes::lower(g, {});
    at::Tensor x = at::randn({40, n});
    x[3][n - 1] = std::numeric_limits<float>::quiet_NaN();
    x[21][0] = infinity;
    x[22][n / 2] = -infinity;
    x[38].fill_(3e38F);  // whose sum leaves f32, and whose mean does not
    Interpreter run(graph);
    run.set("x", x);
    run.run();
    for (const Readable& r : graph.readables()) {
      CAPTURE(fmt::format("{} of rows of {}", r.name, n));
      const at::Tensor found = run.tensor(r.value);
      const at::Tensor right = expected(r.name, x).to(at::kFloat);
      CHECK(at::equal(found.isnan(), right.isnan()));
      CHECK(at::equal(found.isinf(), right.isinf()));
      CHECK(at::equal(found.sign().nan_to_num(0), right.sign().nan_to_num(0)));
    }
  }
}

TEST_CASE("elementwise functions of what is repeated along short rows") {
  at::manual_seed(4);
  for (const Element element : {f32, f64, i32, i64}) {
    for (std::int64_t n = 1; n <= kLongest; ++n) {
      for (const std::int64_t rows : {1, 15, 16, 67, 1100}) {
        Graph g("rows");
        const Value x = g.input("x", element, {rows, n}), y = g.input("y", element, {rows, 1});
        g.output("sum", x + y);
        g.validate();
        const ir::Graph graph = passes::lower(g, {});
        const at::Tensor of_x = numbers(element, {rows, n}), of_y = numbers(element, {rows, 1});
        for (const int threads : {1, 3}) {
          Interpreter run(graph, threads, true);
          run.set("x", of_x);
          run.set("y", of_y);
          run.run();
          CAPTURE(fmt::format("{} [{}, {}]", name_of(element), rows, n));
          CHECK(at::equal(run.tensor(graph.readables()[0].value), of_x + of_y));
        }
      }
    }
  }
}

}  // namespace
}  // namespace metronome::short_rows_test
