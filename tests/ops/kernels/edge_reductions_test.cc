// Reductions, softmax, norms and optimizers at the edges of f32: beside the same in f64 and beside
// libtorch.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/batch_norm/batch_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/optimizer_updates/optimizer_updates.h"
#include "ops/reduce/reduce.h"
#include "ops/reference/table.h"
#include "ops/softmax/softmax.h"
#include "tests/doctest.h"
#include "tests/ops/case_graph.h"
#include "tests/ops/edge_runners.h"
#include "tests/ops/edge_values.h"
#include "tests/ops/parameter_gradients.h"

namespace metronome::edge_reductions_test {
namespace {

/// A row of numbers, and what it is.
struct Numbered {
  std::string name;
  std::vector<float> numbers;
};

/// `n` numbers of f(i).
template <class F>
Numbered line(std::string name, std::int64_t n, const F& f) {
  Numbered result{std::move(name), {}};
  for (std::int64_t i = 0; i < n; ++i) result.numbers.push_back(static_cast<float>(f(i)));
  return result;
}

/// Rows of n numbers: ordinary ones, far from zero, equal, huge, tiny, with infinities and NaN in
/// the first, an inner and the last place.
std::vector<Numbered> lines(std::int64_t n) {
  std::mt19937_64 generator(7);
  const auto unit = [&] { return static_cast<double>(generator() >> 11) * 0x1p-52 - 1; };
  const float max = std::numeric_limits<float>::max(), infinity = INFINITY;
  std::vector<Numbered> result;
  for (const double center : {0.0, 3.0, 1e3, 1e6, -1e6}) {
    result.push_back(
        line(fmt::format("about {:g}", center), n, [&](auto) { return center + unit(); }));
  }
  for (const double size : {1e-44, 1e-38, 1e-30, 1e-20, 1e-10, 1e10, 1e18, 1e20, 1e30, 1e38}) {
    result.push_back(
        line(fmt::format("of size {:g}", size), n, [&](auto) { return size * unit(); }));
  }
  for (const double x : {0.0, 0.1, 1.0, 1e-40, 1e20, 3e38}) {
    result.push_back(line(fmt::format("all {:g}", x), n, [&](auto) { return x; }));
  }
  result.push_back(line("largest, signs by turns", n, [&](auto i) { return i % 2 ? -max : max; }));
  result.push_back(
      line("largest, signs by pairs", n, [&](auto i) { return i / 2 % 2 ? -max : max; }));
  result.push_back(line("spread", n, [&](auto) { return 1e4 * unit(); }));
  result.push_back(line("whole", n, [&](auto) { return std::floor(4 * unit()); }));
  result.push_back(line("only -inf", n, [&](auto) { return -infinity; }));
  for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
    for (const float x : {infinity, -infinity, NAN}) {
      result.push_back(line(fmt::format("{} at {}", x, at), n,
                            [&](auto i) { return i == at ? x : static_cast<float>(unit()); }));
    }
  }
  result.push_back(
      line("masked by -inf", n, [&](auto i) { return i % 3 ? -infinity : float(unit()); }));
  result.push_back(
      line("infinities of both signs", n, [&](auto i) { return i % 2 ? infinity : -infinity; }));
  return result;
}

/// One op on operands, with weights of the outputs that have a gradient, if it has one.
struct Subject {
  OpPtr op;
  Tensors operands;
  std::vector<bool> trained;
  Tensors weights;  ///< of the first outputs
};

struct Results {
  Tensors outputs, gradients;
};

Results by_graph(const Subject& s, const Runner& run) {
  Graph graph("edges");
  Values operands;
  std::map<std::string, at::Tensor> feed;
  Types types;
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    const at::Tensor& x = s.operands[i];
    const Type type{from_torch(x.scalar_type()), x.sizes().vec()};
    operands.push_back(s.trained[i] ? graph.parameter(name, type, {})
                                    : graph.input(name, type.element, type.shape));
    types.push_back(type);
    feed[name] = x;
  }
  const std::size_t count = s.op->infer(types).size();
  Values all = apply(s.op, operands, Line::here(), count);
  all.resize(count - s.op->saved());
  Value loss;
  for (std::size_t k = 0; k < all.size(); ++k) {
    graph.output("y" + std::to_string(k), all[k]);
    if (k >= s.weights.size()) continue;
    const std::string name = "w" + std::to_string(k);
    feed[name] = s.weights[k];
    const Value part = sum(all[k] * graph.input(name, all[k].element(), all[k].shape()));
    loss = k > 0 ? loss + part : part;
  }
  if (!s.weights.empty()) graph.minimize(loss, Sgd{});
  graph.validate();
  const ir::Graph whole = s.weights.empty() ? passes::lower(graph, {})
                                            : passes::differentiate(passes::lower(graph, {}), {});
  std::vector<ValueId> values;
  for (const Readable& r : whole.readables()) {
    if (r.name != "loss") values.push_back(r.value);
  }
  const std::size_t outputs = values.size();
  for (const ParameterGradient& g : parameter_gradients(whole)) values.push_back(g.value);
  Tensors found = run(whole, feed, values);
  return {{found.begin(), found.begin() + static_cast<std::ptrdiff_t>(outputs)},
          {found.begin() + static_cast<std::ptrdiff_t>(outputs), found.end()}};
}

Results by_libtorch(const Subject& s, at::ScalarType type) {
  const auto of = [&](const at::Tensor& x) { return x.is_floating_point() ? x.to(type) : x; };
  Tensors operands;
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    // Scalars of optimizers are f64 as they are.
    const at::Tensor& x = s.operands[i];
    operands.push_back(
        (x.scalar_type() == at::kDouble ? x.clone() : of(x).clone()).requires_grad_(s.trained[i]));
  }
  Results results;
  results.outputs = reference(*s.op, operands);
  at::Tensor loss;
  for (std::size_t k = 0; k < s.weights.size(); ++k) {
    const at::Tensor part = results.outputs[k].mul(of(s.weights[k])).sum();
    loss = k > 0 ? loss.add(part) : part;
  }
  if (loss.defined()) loss.backward();
  for (at::Tensor& y : results.outputs) y = y.detach();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (s.trained[i]) results.gradients.push_back(operands[i].grad());
  }
  return results;
}

/// How results are compared: what lies in one line along `axis` is of like size.
struct Comparison {
  std::string name;
  std::int64_t axis = -1;
  std::vector<std::string> names = {};  ///< of the lines
  /// The sizes that errors are measured at, of the outputs and then of the gradients: the size of
  /// what was summed. Undefined: the largest of the line.
  Tensors sizes = {};

  at::Tensor size(std::size_t k) const { return k < sizes.size() ? sizes[k] : at::Tensor(); }
};

void compare_tensors(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs,
                     const at::Tensor& exact, const Comparison& how, const at::Tensor& sizes) {
  Tally<float> tally(name);
  const std::int64_t axis = how.axis < 0 ? how.axis + exact.dim() : how.axis;
  std::int64_t inner = 1, length = exact.dim() > axis && axis >= 0 ? exact.size(axis) : 1;
  for (std::int64_t d = axis + 1; d < exact.dim(); ++d) inner *= exact.size(d);
  const bool reduced = exact.numel() == static_cast<std::int64_t>(how.names.size());
  if (reduced) inner = length = 1;
  const at::Tensor a = ours.contiguous(), b = theirs.contiguous(), c = exact.contiguous();
  const auto line_of = [&](std::int64_t i) {
    if (exact.dim() == 3) return i / exact.size(2) % exact.size(1);
    return i / (inner * length) * inner + i % inner;
  };
  std::map<std::int64_t, double> largest;
  for (std::int64_t i = 0; i < c.numel(); ++i) {
    const double size = std::abs(c.data_ptr<double>()[i]);
    if (std::isfinite(size)) largest[line_of(i)] = std::max(largest[line_of(i)], size);
  }
  const at::Tensor sized = sizes.defined() ? sizes.contiguous() : at::Tensor();
  for (std::int64_t i = 0; i < c.numel(); ++i) {
    const std::int64_t line = line_of(i);
    const double size = sized.defined() ? sized.data_ptr<double>()[i] : largest[line];
    const std::string place =
        line < static_cast<std::int64_t>(how.names.size()) ? how.names[line] : std::to_string(line);
    tally.add(static_cast<int>(line), a.data_ptr<float>()[i], b.data_ptr<float>()[i],
              c.data_ptr<double>()[i], place, std::isfinite(size) ? size : 0);
  }
  const std::string trouble = tally.judge();
  INFO(trouble);
  CHECK(trouble.empty());
}

void check(const Subject& s, const Comparison& how, const Runner& run) {
  const Results ours = by_graph(s, run), theirs = by_libtorch(s, at::kFloat),
                exact = by_libtorch(s, at::kDouble);
  for (std::size_t k = 0; k < ours.outputs.size(); ++k) {
    compare_tensors(k == 0 ? how.name : fmt::format("{}, output {}", how.name, k), ours.outputs[k],
                    theirs.outputs[k], exact.outputs[k], how, how.size(k));
  }
  for (std::size_t k = 0; k < ours.gradients.size(); ++k) {
    compare_tensors(fmt::format("{}, gradient {}", how.name, k), ours.gradients[k],
                    theirs.gradients[k], exact.gradients[k], how,
                    how.size(ours.outputs.size() + k));
  }
}

/// The lines as rows, or as columns.
at::Tensor table(const std::vector<Numbered>& all, bool columns) {
  std::vector<at::Tensor> rows;
  for (const Numbered& l : all) {
    rows.push_back(at::tensor(at::ArrayRef<float>(l.numbers), at::TensorOptions(at::kFloat)));
  }
  return at::stack(rows, columns ? 1 : 0).contiguous();
}

std::vector<std::string> names_of(const std::vector<Numbered>& all) {
  std::vector<std::string> names;
  for (const Numbered& l : all) names.push_back(l.name);
  return names;
}

at::Tensor ordinary(at::IntArrayRef shape) {
  at::Tensor x = at::arange(1, 1 + c10::multiply_integers(shape), at::TensorOptions(at::kFloat));
  return x.mul(0.7548776662).remainder(1.0).sub(0.4).reshape(shape);
}

constexpr std::int64_t kLengths[] = {3, 40, 1000, 20000};

/// Lines whose differences from their mean f64 has digits for, and f32 room: products of subnormal
/// numbers have no digits, and differences of the largest no room.
std::vector<Numbered> normal_lines(std::int64_t n) {
  std::vector<Numbered> result = lines(n);
  std::erase_if(result, [](const Numbered& l) {
    return l.name == "all 1e+20" || l.name == "all 3e+38" || l.name == "of size 1e+38" ||
           l.name == "of size 1e-44" || l.name == "of size 1e+30" || l.name.starts_with("largest");
  });
  return result;
}

void check_batch_norm(std::string name, const at::Tensor& x, Comparison how, const Runner& run) {
  const std::int64_t c = x.size(1);
  const at::Tensor weights = ordinary(x.sizes()), wide = x.to(at::kDouble);
  std::vector<std::int64_t> axes = {0};
  if (x.dim() > 2) axes.push_back(2);
  const at::Tensor apart = wide.sub(wide.mean(axes, true));
  const at::Tensor deviation = apart.square().mean(axes, true).add(1e-5).sqrt();
  const at::Tensor normal = apart.div(deviation);
  how.name = std::move(name);
  // The size of what cancels in a channel of three, times its factor.
  std::vector<std::int64_t> along(static_cast<std::size_t>(x.dim()), 1);
  along[1] = c;
  const at::Tensor factor = ordinary({c}).to(at::kDouble).abs().reshape(along).div(deviation);
  const at::Tensor sizes = weights.to(at::kDouble).abs().amax(axes, true).mul(factor);
  how.sizes = {{},
               wide.abs().mean(axes).mul(0.1),
               {},
               sizes.expand(x.sizes()),
               normal.mul(weights).abs().sum(axes),
               weights.to(at::kDouble).abs().sum(axes)};
  check({make_op(BatchNorm{}),
         {x, ordinary({c}), ordinary({c}), at::zeros({c}), at::ones({c})},
         {true, true, true, false, false},
         {weights}},
        how, run);
}

void check_norms(std::int64_t n, const Runner& run) {
  const std::vector<Numbered> all = normal_lines(n);
  const auto c = static_cast<std::int64_t>(all.size());
  const at::Tensor rows = table(all, false), columns = table(all, true);
  const at::Tensor weights = ordinary(rows.sizes()), gamma = ordinary({n});
  // The size of what cancels in a row of three.
  const at::Tensor wide = rows.to(at::kDouble), apart = wide.sub(wide.mean({1}, true));
  const at::Tensor sizes = weights.mul(gamma)
                               .to(at::kDouble)
                               .abs()
                               .amax({1}, true)
                               .div(apart.square().mean({1}, true).add(1e-5).sqrt());
  check({make_op(LayerNorm{}), {rows, gamma, ordinary({n})}, {true, false, false}, {weights}},
        {.name = fmt::format("layer_norm {}", n),
         .axis = 1,
         .names = names_of(all),
         .sizes = {{}, sizes.expand(rows.sizes())}},
        run);
  const Comparison how{.name = "", .axis = 0, .names = names_of(all)};
  check_batch_norm(fmt::format("batch_norm {}", n), columns, how, run);
  if (n > 1000) return;
  // The same numbers thrice; a line lies along the first and the last dimension.
  const at::Tensor images = columns.reshape({n, c, 1}).expand({n, c, 3}).contiguous();
  check_batch_norm(fmt::format("batch_norm of images {}", n), images, how, run);
}

void check_all(const Runner& run, bool long_ones) {
  for (const std::int64_t n : kLengths) {
    if (n > 1000 && !long_ones) continue;
    const std::vector<Numbered> all = lines(n);
    for (const bool columns : {false, true}) {
      const at::Tensor x = table(all, columns);
      const std::int64_t axis = columns ? 0 : 1;
      const std::string form = fmt::format("{} {}", n, columns ? "down" : "along");
      Comparison how{.name = "", .axis = axis, .names = names_of(all)};
      for (const Reduce::Kind kind : {Reduce::Kind::sum, Reduce::Kind::mean, Reduce::Kind::max,
                                      Reduce::Kind::min, Reduce::Kind::sum_squares}) {
        Reduce op{kind, {axis}};
        how.name = fmt::format("{} {}", op.name, form);
        const bool adds = kind == Reduce::Kind::sum || kind == Reduce::Kind::mean;
        how.sizes.clear();
        if (adds) how.sizes = reference(*make_op(op), {x.to(at::kDouble).abs()});
        check({make_op(op), {x}, {true}, {ordinary({static_cast<std::int64_t>(all.size())})}}, how,
              run);
      }
      how.sizes.clear();
      for (const bool log : {false, true}) {
        how.name = fmt::format("{} {}", log ? "log_softmax" : "softmax", form);
        check({make_op(Softmax{.axis = axis, .log = log}), {x}, {true}, {ordinary(x.sizes())}}, how,
              run);
      }
    }
    check_norms(n, run);
  }
}

}  // namespace

TEST_CASE("reductions, softmax and norms are as near to f64's as libtorch's") {
  at::set_num_threads(1);
  print_heading(std::string(cpu_table().isa()));
  check_all(on_cpu, true);
}

TEST_CASE("argmax finds NaN first, and infinities, as libtorch") {
  for (const std::int64_t n : kLengths) {
    for (const bool columns : {false, true}) {
      const at::Tensor x = table(lines(n), columns);
      const OpPtr op = make_op(ArgMax{columns ? 0 : 1});
      const Subject s{op, {x}, {false}, {}};
      const at::Tensor found = by_graph(s, on_cpu).outputs[0], expected = reference(*op, {x})[0];
      CHECK(at::equal(at::isnan(x.gather(columns ? 0 : 1, found.unsqueeze(columns ? 0 : 1))),
                      at::isnan(x.gather(columns ? 0 : 1, expected.unsqueeze(columns ? 0 : 1)))));
      CHECK(at::equal(found, expected));
    }
  }
}

TEST_CASE("optimizers are as near to f64's as libtorch's") {
  print_heading(std::string(cpu_table().isa()));
  std::vector<float> p, g, m, v;
  for (const float x : edge_values<float>()) {
    for (const float y :
         {0.0f, 1e-42f, 1e-30f, 1e-20f, 1e-8f, 1.0f, 1e10f, 1e20f, 3e38f, INFINITY}) {
      p.push_back(0.5f), g.push_back(x), m.push_back(y / 2), v.push_back(y);
      p.push_back(x), g.push_back(y), m.push_back(-y), v.push_back(0);
    }
  }
  const auto tensor = [](const std::vector<float>& x) {
    return at::tensor(at::ArrayRef<float>(x), at::TensorOptions(at::kFloat));
  };
  const auto scalar = [](double x) { return at::tensor({x}, at::kDouble).reshape({}); };
  const at::Tensor of_p = tensor(p).to(at::kDouble).abs();
  const at::Tensor of_m = tensor(m).to(at::kDouble).abs() + tensor(g).to(at::kDouble).abs() + of_p;
  const auto how = [&](const std::string& name) {
    return Comparison{.name = name, .axis = 0, .sizes = {of_p, of_m, tensor(v).to(at::kDouble)}};
  };
  const auto check_step = [&](const OpPtr& op, Tensors in, const std::string& name) {
    const std::vector<bool> differentiable(in.size(), false);
    check({op, std::move(in), differentiable, {}}, how(name), on_cpu);
  };
  for (const bool decays : {false, true}) {
    const auto with_decay = [&](Tensors in) {
      if (decays) in.push_back(scalar(0.01));
      return in;
    };
    for (const bool decoupled : {false, true}) {
      check_step(make_op(AdamUpdate{.decays = decays, .decoupled = decoupled}),
                 with_decay({tensor(p), tensor(g), tensor(m), tensor(v), scalar(1e-3), scalar(0.1),
                             scalar(1e-3)}),
                 fmt::format("adam, decays {} {}", decays, decoupled));
    }
    check_step(make_op(SgdUpdate{.decays = decays}),
               with_decay({tensor(p), tensor(g), scalar(1e-2)}),
               fmt::format("sgd, decays {}", decays));
    check_step(make_op(SgdUpdate{.momentum = 0.9, .decays = decays, .nesterov = true}),
               with_decay({tensor(p), tensor(g), tensor(m), scalar(1e-2), scalar(1)}),
               fmt::format("nesterov, decays {}", decays));
  }
  for (const double weight : {0.01, 0.7, 1.0}) {
    check({make_op(AverageUpdate{}),
           {tensor(p), tensor(m), scalar(weight)},
           std::vector<bool>(3, false),
           {}},
          {.name = fmt::format("average, weight {}", weight), .axis = 0, .sizes = {of_m}}, on_cpu);
  }
}

TEST_CASE("the device's reductions, softmax and norms are as near to f64's as libtorch's") {
  at::set_num_threads(1);
  HostDevice device;
  print_heading("a device made of the host");
  check_all(on(device), false);
}

}  // namespace metronome::edge_reductions_test
