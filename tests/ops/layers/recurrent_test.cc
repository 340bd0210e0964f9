// Recurrent layers and cells beside libtorch's, with its weights: outputs, last states, gradients.
#include <ATen/ops/_pack_padded_sequence.h>
#include <ATen/ops/_pad_packed_sequence.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/gru_cell.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/lstm_cell.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/rnn_tanh_cell.h>
#include <fmt/format.h>

#include <string>
#include <tuple>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace metronome::recurrent_test {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kSteps = 5, kRows = 4, kIn = 3, kHidden = 6;

struct Subject {
  RecurrentKind kind = RecurrentKind::gru;
  RecurrentOptions options = {};
  bool relu = false;  ///< of an rnn
  std::vector<std::int64_t> lengths = {};
  bool from_states = true;
  Element element = f64;

  std::int64_t stacked() const { return options.layers * (options.bidirectional ? 2 : 1); }
  std::int64_t gates() const {
    return kind == RecurrentKind::rnn ? 1 : kind == RecurrentKind::gru ? 3 : 4;
  }
  bool keeps_cell() const { return kind == RecurrentKind::lstm; }
  at::TensorOptions dtype() const { return element == f64 ? at::kDouble : at::kFloat; }
  at::Tensor numbers(Shape shape, int salt) const {
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    const at::Tensor x = at::arange(count, at::TensorOptions(at::kDouble));
    return at::sin(x * 0.7 + salt).mul(0.8).reshape(shape).to(dtype());
  }
  Shape input_shape() const {
    return options.batch_first ? Shape{kRows, kSteps, kIn} : Shape{kSteps, kRows, kIn};
  }
  RecurrentLayer layer() const {
    if (kind == RecurrentKind::gru) return gru(kHidden, options);
    if (kind == RecurrentKind::lstm) return lstm(kHidden, options);
    return rnn(kHidden, options, relu ? metronome::relu : tanh);
  }
  std::string scope() const {
    return kind == RecurrentKind::gru ? "gru" : kind == RecurrentKind::lstm ? "lstm" : "rnn";
  }
  /// "weight_ih_l0", ... in the order of libtorch's list.
  std::vector<std::pair<std::string, Shape>> parameters() const {
    std::vector<std::pair<std::string, Shape>> all;
    const std::int64_t directions = options.bidirectional ? 2 : 1, rows = gates() * kHidden;
    for (std::int64_t k = 0; k < stacked(); ++k) {
      const std::int64_t layer = k / directions;
      const std::string suffix =
          fmt::format("_l{}{}", layer, k % directions == 1 ? "_reverse" : "");
      all.push_back({"weight_ih" + suffix, {rows, layer == 0 ? kIn : kHidden * directions}});
      all.push_back({"weight_hh" + suffix, {rows, kHidden}});
      if (!options.bias) continue;
      all.push_back({"bias_ih" + suffix, {rows}});
      all.push_back({"bias_hh" + suffix, {rows}});
    }
    return all;
  }
};

/// Output, last states, then gradients: of x, of the first states where given, of the parameters.
struct Results {
  std::vector<std::string> names;
  Tensors tensors;
  void add(std::string name, const at::Tensor& tensor) {
    names.push_back(std::move(name));
    tensors.push_back(tensor.detach().clone());
  }
};

struct Fed {
  at::Tensor x, hidden, cell;
  Tensors parameters;
};

Fed fed(const Subject& s) {
  const Shape states{s.stacked(), kRows, kHidden};
  Fed f{s.numbers(s.input_shape(), 1), s.numbers(states, 2), s.numbers(states, 3), {}};
  int salt = 4;
  for (const auto& [name, shape] : s.parameters()) f.parameters.push_back(s.numbers(shape, salt++));
  return f;
}

Results planned(const Subject& s, const Target& target) {
  const Fed f = fed(s);
  Graph g("sequence");
  const Shape states{s.stacked(), kRows, kHidden};
  const Value x = g.input("x", s.element, s.input_shape());
  RecurrentStart start;
  std::vector<Feed> feeds{{x, f.x}};
  const auto give = [&](Value& to, const char* name, Element element, Shape shape,
                        const at::Tensor& tensor) {
    to = g.input(name, element, std::move(shape));
    feeds.push_back({to, tensor});
  };
  if (s.from_states) give(start.hidden, "h", s.element, states, f.hidden);
  if (s.from_states && s.keeps_cell()) give(start.cell, "c", s.element, states, f.cell);
  if (!s.lengths.empty()) give(start.lengths, "lengths", i64, {kRows}, at::tensor(s.lengths));
  const Recurrent made = s.layer()(x, start);
  Value loss = sum(square(made.output)) + sum(square(made.hidden - 0.5));
  if (s.keeps_cell()) loss = loss + sum(square(made.cell + 0.25));
  g.minimize(loss, Sgd{.lr = 1e-3});
  g.output("output", made.output);
  g.output("hidden", made.hidden);
  if (s.keeps_cell()) g.output("cell", made.cell);
  std::vector<std::pair<std::string, Value>> gradients{{"x", g.gradient(x)}};
  if (s.from_states) gradients.emplace_back("h", g.gradient(start.hidden));
  if (s.from_states && s.keeps_cell()) gradients.emplace_back("c", g.gradient(start.cell));
  for (const auto& [name, shape] : s.parameters()) {
    gradients.emplace_back(name, g.gradient(g.parameter(s.scope() + "/" + name)));
  }
  Executable step = compile(g, target, {.threads = 1, .tune = Tune::off});
  for (std::size_t i = 0; i < f.parameters.size(); ++i) {
    step.set(s.scope() + "/" + s.parameters()[i].first, f.parameters[i]);
  }
  step.run(feeds);
  Results results;
  for (const char* name : {"output", "hidden", "cell"}) {
    if (name != std::string("cell") || s.keeps_cell()) results.add(name, step.read(name));
  }
  for (const auto& [name, value] : gradients) results.add("gradient of " + name, step.read(value));
  return results;
}

/// libtorch's call over padded or packed rows.
template <class... Input>
std::tuple<at::Tensor, at::Tensor, at::Tensor> call(const Subject& s, const at::Tensor& h,
                                                    const at::Tensor& c, const Tensors& parameters,
                                                    const Input&... input) {
  const RecurrentOptions& o = s.options;
  const bool packed = sizeof...(Input) == 2;
  const auto with = [&](const auto& function, const auto& state) {
    if constexpr (sizeof...(Input) == 2) {
      return function(input..., state, parameters, o.bias, o.layers, 0.0, true, o.bidirectional);
    } else {
      return function(input..., state, parameters, o.bias, o.layers, 0.0, true, o.bidirectional,
                      o.batch_first && !packed);
    }
  };
  const auto of = [&](const auto& function) {
    const auto [output, last] = with(function, h);
    return std::tuple<at::Tensor, at::Tensor, at::Tensor>(output, last, at::Tensor());
  };
  if (s.kind == RecurrentKind::gru) return of([](const auto&... a) { return at::gru(a...); });
  if (s.kind == RecurrentKind::lstm) {
    return with([](const auto&... a) { return at::lstm(a...); }, Tensors{h, c});
  }
  if (s.relu) return of([](const auto&... a) { return at::rnn_relu(a...); });
  return of([](const auto&... a) { return at::rnn_tanh(a...); });
}

/// Calls libtorch's layer for rows of several lengths, which it wants sorted and packed.
std::tuple<at::Tensor, at::Tensor, at::Tensor> call_packed(const Subject& s, const Fed& f) {
  const std::int64_t row = s.options.batch_first ? 0 : 1;
  const at::Tensor lengths = at::tensor(s.lengths);
  const at::Tensor order = at::argsort(lengths, 0, true), back = at::argsort(order);
  const auto [data, sizes] = at::_pack_padded_sequence(
      f.x.index_select(row, order), lengths.index_select(0, order), s.options.batch_first);
  const auto [output, h, c] = call(s, f.hidden.index_select(1, order),
                                   f.cell.index_select(1, order), f.parameters, data, sizes);
  const auto padded =
      std::get<0>(at::_pad_packed_sequence(output, sizes, s.options.batch_first, 0.0, kSteps));
  return {padded.index_select(row, back), h.index_select(1, back),
          s.keeps_cell() ? c.index_select(1, back) : c};
}

Results expected(const Subject& s) {
  Fed f = fed(s);
  if (!s.from_states) f.hidden.zero_(), f.cell.zero_();
  for (at::Tensor* t : {&f.x, &f.hidden, &f.cell}) t->requires_grad_();
  for (at::Tensor& t : f.parameters) t.requires_grad_();
  const auto [output, hidden, cell] =
      s.lengths.empty() ? call(s, f.hidden, f.cell, f.parameters, f.x) : call_packed(s, f);
  at::Tensor loss = output.square().sum() + (hidden - 0.5).square().sum();
  if (s.keeps_cell()) loss = loss + (cell + 0.25).square().sum();
  loss.backward();
  Results results;
  results.add("output", output);
  results.add("hidden", hidden);
  if (s.keeps_cell()) results.add("cell", cell);
  results.add("gradient of x", f.x.grad());
  if (s.from_states) results.add("gradient of h", f.hidden.grad());
  if (s.from_states && s.keeps_cell()) results.add("gradient of c", f.cell.grad());
  for (std::size_t i = 0; i < f.parameters.size(); ++i) {
    results.add("gradient of " + s.parameters()[i].first, f.parameters[i].grad());
  }
  return results;
}

/// Outputs are below 1 or of that size; gradients are sums of up to `kSteps * kRows` terms.
void check_equal(const Results& results, const Results& right, Element element) {
  REQUIRE(results.names == right.names);
  for (std::size_t i = 0; i < results.names.size(); ++i) {
    CAPTURE(results.names[i]);
    REQUIRE(results.tensors[i].sizes() == right.tensors[i].sizes());
    const double size = 1 + right.tensors[i].abs().max().item<double>();
    const double apart = (results.tensors[i] - right.tensors[i]).abs().max().item<double>();
    CHECK(apart <= (element == f64 ? 1e-12 : 5e-6) * size);
  }
}

void check(Subject s) {
  for (const Element element : {f32, f64}) {
    s.element = element;
    const Results right = expected(s);
    for (const Target& target : {cpu_replay(), eager()}) {
      check_equal(planned(s, target), right, element);
    }
  }
}

const std::vector<std::int64_t> kLengths = {3, 5, 1, 4};

TEST_CASE("one layer is libtorch's, with and without biases and first states") {
  for (const auto kind : {RecurrentKind::rnn, RecurrentKind::gru, RecurrentKind::lstm}) {
    CAPTURE(static_cast<int>(kind));
    check({.kind = kind});
    check({.kind = kind, .options = {.bias = false}, .from_states = false});
    check({.kind = kind, .options = {.batch_first = true}});
  }
  check({.kind = RecurrentKind::rnn, .relu = true});
}

TEST_CASE("several layers in both directions are libtorch's") {
  for (const auto kind : {RecurrentKind::rnn, RecurrentKind::gru, RecurrentKind::lstm}) {
    CAPTURE(static_cast<int>(kind));
    check({.kind = kind, .options = {.layers = 3}});
    check({.kind = kind, .options = {.layers = 2, .bidirectional = true, .batch_first = true}});
  }
}

TEST_CASE("rows of several lengths are libtorch's packed sequences") {
  for (const auto kind : {RecurrentKind::rnn, RecurrentKind::gru, RecurrentKind::lstm}) {
    CAPTURE(static_cast<int>(kind));
    check({.kind = kind, .lengths = kLengths});
    check({.kind = kind, .options = {.bidirectional = true}, .lengths = kLengths});
    check({.kind = kind,
           .options = {.layers = 2, .bidirectional = true, .batch_first = true},
           .lengths = kLengths,
           .from_states = false});
  }
}

TEST_CASE("a length of 0 leaves the state, and one above the steps counts as all of them") {
  Graph g("lengths");
  const Value x = g.input("x", f64, {3, 2, 4}), h = g.input("h", f64, {2, 2, 5});
  const Value n = g.input("n", i32, {2});
  const Recurrent made = gru(5, {.bidirectional = true})(x, {.hidden = h, .lengths = n});
  g.output("output", made.output);
  g.output("hidden", made.hidden);
  Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
  const at::Tensor xs = at::randn({3, 2, 4}, at::kDouble), hs = at::randn({2, 2, 5}, at::kDouble);
  const auto run = [&](std::vector<int> lengths) {
    step.run({{x, xs}, {h, hs}, {n, at::tensor(lengths, at::kInt)}});
    return std::pair(step.read("output").clone(), step.read("hidden").clone());
  };
  const auto [all, last] = run({3, 3});
  const auto [output, hidden] = run({0, 9});
  CHECK(at::equal(output.select(1, 0), at::zeros({3, 10}, at::kDouble)));
  CHECK(at::equal(hidden.select(1, 0), hs.select(1, 0)));
  CHECK(at::equal(output.select(1, 1), all.select(1, 1)));
  CHECK(at::equal(hidden.select(1, 1), last.select(1, 1)));
}

TEST_CASE("cells are libtorch's, with gradients, from a state and from zeros") {
  const auto options = at::TensorOptions(at::kDouble);
  const auto numbers = [&](Shape shape, int salt) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    return at::cos(at::arange(count, options) + salt).reshape(shape);
  };
  for (const auto kind : {RecurrentKind::rnn, RecurrentKind::gru, RecurrentKind::lstm}) {
    for (const bool zeros : {false, true}) {
      const Subject s{.kind = kind};
      CAPTURE(s.scope());
      const std::int64_t rows = s.gates() * kHidden;
      Graph g("cell");
      const Value x = g.input("x", f64, {kRows, kIn}), h = g.input("h", f64, {kRows, kHidden});
      const Value c = g.input("c", f64, {kRows, kHidden});
      Value next, kept = c;
      if (s.keeps_cell()) {
        const LstmState made = zeros ? lstm_cell(kHidden)(x) : lstm_cell(kHidden)(x, {h, c});
        next = made.hidden, kept = made.cell;
      } else {
        const RecurrentCell cell =
            s.kind == RecurrentKind::gru ? gru_cell(kHidden) : rnn_cell(kHidden);
        next = zeros ? cell(x) : cell(x, h);
      }
      g.output("h'", next);
      g.minimize(sum(square(next)) + sum(square(kept)) + 0.0 * sum(h), Sgd{.lr = 1e-3});
      const Value dx = g.gradient(x);
      const std::string scope = s.scope() + "_cell/";
      const Value dw = g.gradient(g.parameter(scope + "weight_hh"));
      Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
      Tensors w{numbers({rows, kIn}, 1), numbers({rows, kHidden}, 2), numbers({rows}, 3),
                numbers({rows}, 4)};
      const char* const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
      for (std::size_t i = 0; i < w.size(); ++i) step.set(scope + names[i], w[i]);
      at::Tensor xs = numbers({kRows, kIn}, 5), hs = numbers({kRows, kHidden}, 6);
      at::Tensor cs = numbers({kRows, kHidden}, 7);
      step.run({{x, xs}, {h, hs}, {c, cs}});
      if (zeros) hs = at::zeros_like(hs);
      if (zeros && s.keeps_cell()) cs = at::zeros_like(cs);
      xs.requires_grad_(), w[1].requires_grad_();
      at::Tensor right = hs, right_cell = cs;
      if (s.keeps_cell()) {
        std::tie(right, right_cell) = at::lstm_cell(xs, {hs, cs}, w[0], w[1], w[2], w[3]);
      } else if (s.kind == RecurrentKind::gru) {
        right = at::gru_cell(xs, hs, w[0], w[1], w[2], w[3]);
      } else {
        right = at::rnn_tanh_cell(xs, hs, w[0], w[1], w[2], w[3]);
      }
      (right.square().sum() + right_cell.square().sum()).backward();
      CHECK(at::allclose(step.read("h'"), right, 1e-13, 1e-13));
      CHECK(at::allclose(step.read(dx), xs.grad(), 1e-12, 1e-12));
      CHECK(at::allclose(step.read(dw), w[1].grad(), 1e-12, 1e-12));
    }
  }
}

TEST_CASE("a thousand steps take a plan of its lower bound") {
  Graph g("long");
  const Value x = g.input("x", f32, {1000, 4, 16});
  g.minimize(sum(square(x.through(gru(16)))), Adam{.lr = 1e-3});
  const Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
  const PlanReport& plan = step.report().plan(Mode::train);
  fmt::print("1000 steps: {} kernels, compiled in {:.2f} s, arena {} bytes, at least {}\n",
             plan.kernels, step.report().compile_seconds, plan.arena_bytes, plan.lower_bound);
  CHECK(static_cast<double>(plan.arena_bytes) <= 1.02 * static_cast<double>(plan.lower_bound));
}

}  // namespace
}  // namespace metronome::recurrent_test
