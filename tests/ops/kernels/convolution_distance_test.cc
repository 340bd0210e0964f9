// How far each way to compute a convolution is from f64, beside libtorch's f32: results and both
// gradients, over widths, sizes, strides and paddings. 60 shapes drawn by a seed; more of the
// grid's ten thousand by METRONOME_CONVOLUTIONS=600 before the program.
#include <ATen/Parallel.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/passes/lower.h"
#include "graph/passes/training/differentiate.h"
#include "ops/convolution/convolution.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/optimizers/optimizers.h"
#include "tests/doctest.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/parameter_gradients.h"

namespace metronome::convolution_distance_test {
namespace {

/// At most so many times libtorch's: what is lost on average, and by the worst element.
constexpr double kMean = 2, kWorst = 4;
/// One unit in the last place, relative to the root of the mean square: libtorch may come nearer by
/// luck.
constexpr double kRounding = 0x1p-23;

struct Problem {
  std::int64_t images, in, out, size, kernel, stride, padding;

  std::string text() const {
    return fmt::format("{} images, {} to {} channels, {} x {}, kernel {}, stride {}, padding {}",
                       images, in, out, size, size, kernel, stride, padding);
  }
  bool possible() const { return size + 2 * padding >= kernel && 2 * padding <= kernel; }
  double products() const {
    const double places = std::pow(static_cast<double>(size / stride), 2);
    return static_cast<double>(images * in * out * kernel * kernel) * places;
  }
};

constexpr double kMostProducts = 3e8;  // f64 takes a second for more

std::vector<Problem> grid() {
  std::vector<Problem> all;
  for (const std::int64_t images : {1, 16, 64})
    for (const std::int64_t in : {3, 8, 16, 24, 32, 64, 128, 256, 512})
      for (const std::int64_t out : {8, 16, 32, 64, 128, 256, 512})
        for (const std::int64_t size : {4, 5, 8, 16, 32, 64})
          for (const auto& [kernel, stride] : std::vector<std::pair<std::int64_t, std::int64_t>>{
                   {1, 1}, {1, 2}, {3, 1}, {3, 2}, {4, 2}, {5, 1}})
            for (const std::int64_t padding : {std::int64_t{0}, kernel / 2}) {
              const Problem problem{images, in, out, size, kernel, stride, padding};
              if (problem.possible() && problem.products() <= kMostProducts) all.push_back(problem);
            }
  return all;
}

/// Output, and the gradients of x and w.
using Three = std::array<at::Tensor, 3>;
constexpr const char* kNames[] = {"result", "input's gradient", "weight's gradient"};

Three by_libtorch(const Problem& p, const at::Tensor& x, const at::Tensor& w, const at::Tensor& g) {
  const std::vector<std::int64_t> stride(2, p.stride), padding(2, p.padding), one(2, 1), none(2, 0);
  const at::Tensor y = at::convolution(x, w, {}, stride, padding, one, false, none, 1);
  const auto [dx, dw, db] =
      at::convolution_backward(g, x, w, at::OptionalIntArrayRef(), stride, padding, one, false,
                               none, 1, {true, true, false});
  return {y, dx, dw};
}

struct Distance {
  double mean, worst;  ///< of the root of the mean square of what is exact
};

Distance distance(const at::Tensor& found, const at::Tensor& exact) {
  const at::Tensor error = found.to(at::kDouble) - exact;
  const double size = std::sqrt(exact.square().mean().item<double>());
  if (size == 0) return {0, 0};
  return {std::sqrt(error.square().mean().item<double>()) / size,
          error.abs().max().item<double>() / size};
}

/// Times libtorch's, of one way in one problem.
struct Ratio {
  double mean = 0, worst = 0;
  std::string of_mean = "-", of_worst = "-";

  void add(const Distance& found, const Distance& theirs, const std::string& where) {
    const double m = found.mean / std::max(theirs.mean, kRounding);
    const double w = found.worst / std::max(theirs.worst, 4 * kRounding);
    if (m > mean) mean = m, of_mean = where;
    if (w > worst) worst = w, of_worst = where;
  }
};

using Ratios = std::map<std::string, Ratio>;  // [what, by which way]

/// A convolution of x, a sum of its result times g, and both gradients.
ir::Graph graph_of(const Problem& p) {
  Graph graph("convolution");
  const Value x = graph.parameter("x", {f32, {p.images, p.in, p.size, p.size}}, zeros());
  const Value w = graph.parameter("w", {f32, {p.out, p.in, p.kernel, p.kernel}}, zeros());
  Convolution op;
  op.window.stride = {p.stride, p.stride};
  op.window.low = op.window.high = {p.padding, p.padding};
  op.window.dilation = {1, 1};
  const Value y = apply(op, {x, w}, Line{});
  graph.output("y", y);
  graph.minimize(sum(y * graph.input("g", f32, y.shape())), Sgd{});
  graph.validate();
  return passes::differentiate(passes::lower(graph, {}), {});
}

at::Tensor drawn_result(const Problem& p) {
  const std::int64_t places = (p.size + 2 * p.padding - p.kernel) / p.stride + 1;
  return at::randn({p.images, p.out, places, places});
}

/// f(output and gradients, which way each of them was made) for each way to compute them.
template <class F>
void for_ways(const Problem& p, const at::Tensor& x, const at::Tensor& w, const at::Tensor& g,
              const F& f) {
  const ir::Graph whole = graph_of(p);
  std::size_t ways = 1;
  for (std::size_t way = 0; way < ways; ++way) {
    std::map<std::string, std::string> taken;  // [op]
    Interpreter run(whole, 1);
    run.set("x", x), run.set("w", w), run.set("g", g);
    run.run([&](std::int32_t node, const std::vector<Candidate>& candidates) {
      const std::string name(whole.nodes()[static_cast<std::size_t>(node)].op->name());
      if (name.find("conv") == std::string::npos) return std::size_t{0};
      ways = std::max(ways, candidates.size());
      const std::size_t choice = std::min(way, candidates.size() - 1);
      taken[name] = name_of(candidates[choice]);
      return choice;
    });
    Three ours;
    for (const Readable& r : whole.readables()) {
      if (r.name == "y") ours[0] = run.tensor(r.value);
    }
    for (const ParameterGradient& gradient : parameter_gradients(whole)) {
      ours[whole.storage(gradient.parameter).path == "x" ? 1 : 2] = run.tensor(gradient.value);
    }
    f(ours, std::array{taken["convolution"], taken["transposed_convolution"],
                       taken["convolution_weight_grad"]});
  }
}

void measure(const Problem& p, Ratios& ratios, std::vector<std::string>& wrong) {
  const at::Tensor x = at::randn({p.images, p.in, p.size, p.size}),
                   w = at::randn({p.out, p.in, p.kernel, p.kernel}) * 0.1, g = drawn_result(p);
  const Three exact = by_libtorch(p, x.to(at::kDouble), w.to(at::kDouble), g.to(at::kDouble));
  const Three theirs = by_libtorch(p, x, w, g);
  for_ways(p, x, w, g, [&](const Three& ours, const auto& taken) {
    for (std::size_t k = 0; k < 3; ++k) {
      const std::string by = fmt::format("{} by {}", kNames[k], taken[k]);
      const Distance found = distance(ours[k], exact[k]), lib = distance(theirs[k], exact[k]);
      ratios[by].add(found, lib, p.text());
      Ratio one;
      one.add(found, lib, "");
      if (one.mean <= kMean && one.worst <= kWorst) continue;
      wrong.push_back(fmt::format("{}: {:.2f} times in the mean, {:.2f} times in the worst; {}", by,
                                  one.mean, one.worst, p.text()));
    }
  });
}

/// Results are infinite where their window holds an infinity, and finite elsewhere.
void check_windows(const Problem& p, std::int64_t row) {
  const std::vector<std::int64_t> image = {p.images, p.in, p.size, p.size};
  const at::Tensor g = at::ones({p.images, p.out, p.size, p.size});
  at::Tensor x = at::ones(image), holds = at::zeros(g.sizes(), at::kBool);
  x[1][3][row][p.size - 1] = std::numeric_limits<float>::infinity();
  const std::int64_t first = std::max<std::int64_t>(row - 1, 0);
  holds[1].slice(1, first, row + 2).slice(2, p.size - 2, p.size).fill_(true);
  for_ways(p, x, at::ones({p.out, p.in, 3, 3}), g, [&](const Three& ours, const auto& taken) {
    CAPTURE(p.text());
    CAPTURE(row);
    CAPTURE(taken[0]);
    CHECK(at::equal(at::isinf(ours[0]), holds));
    CHECK(at::isfinite(ours[0]).logical_or(holds).all().item<bool>());
    CAPTURE(taken[1]);
    CHECK(at::isfinite(ours[1]).all().item<bool>());
  });
}

TEST_CASE("an infinity spoils the windows that hold it, and none else") {
  for (const Problem& p : {Problem{2, 16, 16, 8, 3, 1, 1}, Problem{2, 64, 64, 16, 3, 1, 1}}) {
    for (const std::int64_t row : {0, 6}) check_windows(p, row);
  }
}

TEST_CASE("each way is at most twice as far from f64 as libtorch in the mean, four times in all") {
  at::set_num_threads(1);
  at::manual_seed(1);
  std::vector<Problem> problems = grid();
  const char* const asked = std::getenv("METRONOME_CONVOLUTIONS");
  const std::size_t count = asked == nullptr ? 60 : std::strtoul(asked, nullptr, 10);
  std::mt19937_64 random(7);
  std::shuffle(problems.begin(), problems.end(), random);
  problems.resize(std::min(count, problems.size()));
  REQUIRE(!problems.empty());  // METRONOME_CONVOLUTIONS is no number, or 0
  Ratios ratios;
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    measure(problems[i], ratios, wrong);
    if (i > 0 && i % 100 == 0) fmt::print(stderr, "{} of {} shapes\n", i, problems.size());
  }
  fmt::print("times libtorch's distance from f64, the largest of {} shapes\n", problems.size());
  for (const auto& [name, ratio] : ratios) {
    fmt::print("{:<40} mean {:5.2f}  {}\n{:<40} worst {:4.2f}  {}\n", name, ratio.mean,
               ratio.of_mean, "", ratio.worst, ratio.of_worst);
  }
  for (const std::string& line : wrong) fmt::print("{}\n", line);
  CHECK(wrong.empty());
}

}  // namespace
}  // namespace metronome::convolution_distance_test
