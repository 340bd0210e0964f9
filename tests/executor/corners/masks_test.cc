// Nothing that a mask hides is looked at: a NaN or an infinity there changes neither results nor
// gradients.
//
//   lengths 2, 3     [ a  b  ? ]      keys that no query sees, rows whose target is ignored,
//                    [ c  d  e ]      dropped elements: likewise
#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/doctest.h"
#include "tests/executor/corners.h"

namespace metronome::masks_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Results and gradients of what is trained, by name, of one step.
using Step = std::vector<std::pair<std::string, at::Tensor>>;

/// Declares a step over inputs of the given tensors, and runs it.
using Declare = std::function<void(Graph&, const Values&)>;
Step step_of(const Declare& declare, const std::vector<at::Tensor>& inputs, const Target& target) {
  Graph g("masked");
  Values values;
  std::vector<Feed> feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& x = inputs[i];
    const Element element = x.scalar_type() == at::kFloat  ? f32
                            : x.scalar_type() == at::kBool ? bool_
                                                           : i64;
    values.push_back(g.input(fmt::format("in{}", i), element, x.sizes().vec()));
    feeds.push_back({values.back(), x});
  }
  declare(g, values);
  std::vector<std::string> names = {"loss"};
  for (const DeclaredParameter& p : g.parameters()) {
    names.push_back("d " + p.path);
    g.output(names.back(), g.gradient(g.parameter(p.path)));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (values[i].element() != f32) continue;
    names.push_back(fmt::format("d in{}", i));
    g.output(names.back(), g.gradient(values[i]));
  }
  Executable step = compile(g, target, tests::plain_options());
  step.run(feeds);
  Step result;
  for (const std::string& name : names) result.emplace_back(name, step.read(name).clone());
  return result;
}

/// Compares a step on `hidden` places full of NaN or infinity with one on zeros there. The names of
/// what differs.
std::string looked_at(const Declare& declare, std::vector<at::Tensor> inputs,
                      const at::Tensor& hidden, std::size_t of = 0) {
  std::string found;
  for (const Target& target : {cpu_replay(), tests::device_of_host()}) {
    const at::Tensor given = inputs[of];
    inputs[of] = given.masked_fill(hidden, 0);
    const Step expected = step_of(declare, inputs, target);
    for (const double number : {kNan, kInfinity, -kInfinity, 3e38}) {
      inputs[of] = given.masked_fill(hidden, number);
      const Step step = step_of(declare, inputs, target);
      for (std::size_t i = 0; i < step.size(); ++i) {
        if (at::allclose(step[i].second, expected[i].second, 1e-5, 1e-6)) continue;
        found += fmt::format("{} beside {}; ", step[i].first, number);
      }
    }
    inputs[of] = given;
  }
  return found;
}

at::Tensor numbers(at::IntArrayRef shape) {
  const at::Tensor n = at::arange(c10::multiply_integers(shape), at::TensorOptions(at::kFloat));
  return at::sin(n * 0.7).reshape(shape);
}
at::Tensor booleans(std::vector<int> list, at::IntArrayRef shape) {
  return at::tensor(list, at::kInt).to(at::kBool).reshape(shape);
}

TEST_CASE("recurrent layers look at no step from a row's length on") {
  const at::Tensor lengths = at::tensor({2, 3, 0}, at::kLong);
  const at::Tensor hidden =
      booleans({0, 0, 1, 0, 0, 0, 1, 1, 1}, {3, 3, 1}).expand({3, 3, 4}).contiguous();
  for (const bool both : {false, true}) {
    const RecurrentOptions options = {.layers = 2, .bidirectional = both, .batch_first = true};
    for (const RecurrentLayer& layer : {gru(5, options), lstm(5, options), rnn(5, options)}) {
      const auto declare = [&](Graph& g, const Values& in) {
        const auto results = layer(in[0], {.lengths = in[1]});
        g.minimize(sum(square(results.output)) + sum(results.hidden), Sgd{});
      };
      CHECK(looked_at(declare, {numbers({3, 3, 4}), lengths}, hidden) == "");
    }
  }
}

TEST_CASE("attention looks at no key or value that a mask hides from all queries") {
  const at::Tensor mask = booleans({1, 1, 0, 1, 0, 0}, {2, 1, 1, 3});
  const at::Tensor hidden =
      booleans({0, 0, 1, 0, 1, 1}, {2, 1, 3, 1}).expand({2, 2, 3, 4}).contiguous();
  const auto declare = [](Graph& g, const Values& in) {
    const Value y = scaled_dot_product_attention(in[0], in[1], in[2], {.attn_mask = in[3]});
    g.minimize(sum(square(y)) + g.parameter("unused", {f32, {}}, zeros()), Sgd{});
  };
  const std::vector<at::Tensor> inputs = {numbers({2, 2, 5, 4}), numbers({2, 2, 3, 4}),
                                          numbers({2, 2, 3, 4}), mask};
  CHECK(looked_at(declare, inputs, hidden, 1) == "");
  CHECK(looked_at(declare, inputs, hidden, 2) == "");
}

TEST_CASE("attention looks at no query that a mask hides from all keys") {
  const at::Tensor mask = booleans({1, 1, 0, 0, 0, 0, 1, 0, 1}, {3, 3});
  const at::Tensor hidden = booleans({0, 1, 0}, {1, 1, 3, 1}).expand({2, 2, 3, 4}).contiguous();
  for (const double dropout_p : {0.0, 0.5}) {  // in blocks, and composed
    const auto declare = [&](Graph& g, const Values& in) {
      const Value y = scaled_dot_product_attention(in[0], in[1], in[2],
                                                   {.attn_mask = in[3], .dropout_p = dropout_p});
      g.minimize(sum(square(y)) + g.parameter("unused", {f32, {}}, zeros()), Sgd{});
    };
    const at::Tensor x = numbers({2, 2, 3, 4});
    CHECK(looked_at(declare, {x, x, x, mask}, hidden, 0) == "");
  }
}

TEST_CASE("on a CPU, a key's gradient holds nothing of a query that does not see it") {
  const auto run = [](double number) {
    Graph g("pairs");
    Values in;
    for (const char* name : {"q", "k", "v"}) in.push_back(g.input(name, f32, {1, 3, 4}));
    const Value mask = g.input("mask", bool_, {3, 3});
    const Value y = scaled_dot_product_attention(in[0], in[1], in[2], {.attn_mask = mask});
    g.output("dk", g.gradient(in[1]));
    g.output("dv", g.gradient(in[2]));
    g.minimize(sum(square(y)) + g.parameter("unused", {f32, {}}, zeros()), Sgd{});
    Executable step = compile(g, cpu_replay(), tests::plain_options());
    const at::Tensor x = numbers({1, 3, 4});
    at::Tensor q = x.clone();
    q.select(1, 2).fill_(number);  // sees the last key alone
    step.run(
        {{"q", q}, {"k", x}, {"v", x}, {"mask", booleans({1, 1, 0, 1, 1, 0, 0, 0, 1}, {3, 3})}});
    return std::pair(step.read("dk").slice(1, 0, 2).clone(),
                     step.read("dv").slice(1, 0, 2).clone());
  };
  const auto [dk, dv] = run(0);
  for (const double number : {kNan, kInfinity}) {
    const auto [dk_beside, dv_beside] = run(number);
    CHECK(at::allclose(dk_beside, dk, 1e-5, 1e-6));
    CHECK(at::allclose(dv_beside, dv, 1e-5, 1e-6));
  }
}

TEST_CASE("attention of groups of heads, and of a mask without a batch") {
  const at::Tensor mask = booleans({1, 0, 1, 1, 0, 1}, {2, 3});
  const at::Tensor hidden = booleans({0, 1, 0}, {1, 1, 3, 1}).expand({2, 2, 3, 4}).contiguous();
  const auto declare = [](Graph& g, const Values& in) {
    const Value y =
        scaled_dot_product_attention(in[0], in[1], in[2], {.attn_mask = in[3], .enable_gqa = true});
    g.minimize(sum(square(y)) + g.parameter("unused", {f32, {}}, zeros()), Sgd{});
  };
  const std::vector<at::Tensor> inputs = {numbers({2, 4, 2, 4}), numbers({2, 2, 3, 4}),
                                          numbers({2, 2, 3, 4}), mask};
  CHECK(looked_at(declare, inputs, hidden, 1) == "");
  CHECK(looked_at(declare, inputs, hidden, 2) == "");
}

TEST_CASE("multi-head attention looks at no row of another stream that is padding") {
  const at::Tensor padding = booleans({0, 0, 1, 0, 1, 1}, {2, 3});
  const auto declare = [](Graph& g, const Values& in) {
    const Value y = in[0].through(
        multi_head_attention(4, 2, {.key = in[1], .value = in[1], .key_padding_mask = in[2]}));
    g.minimize(sum(square(y)), Sgd{});
  };
  const at::Tensor hidden = padding.reshape({2, 3, 1}).expand({2, 3, 4}).contiguous();
  CHECK(looked_at(declare, {numbers({2, 5, 4}), numbers({2, 3, 4}), padding}, hidden, 1) == "");
}

TEST_CASE("on a CPU, a causal query sees nothing behind it") {
  constexpr int kLength = 150;  // three blocks of keys
  const auto run = [&](double number) {
    Graph g("causal");
    Values in;
    for (const char* name : {"q", "k", "v"}) in.push_back(g.input(name, f32, {2, kLength, 8}));
    const Value y = scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true});
    g.output("y", y);
    g.output("dq", g.gradient(in[0]));
    const Value early = y.slice(1, 0, 100);
    g.minimize(sum(square(early)) + g.parameter("unused", {f32, {}}, zeros()), Sgd{});
    Executable step = compile(g, cpu_replay(), tests::plain_options());
    at::Tensor k = numbers({2, kLength, 8}), v = k.clone();
    k.slice(1, 120).fill_(number);
    v.slice(1, 120).fill_(number);
    step.run({{"q", numbers({2, kLength, 8})}, {"k", k}, {"v", v}});
    return std::pair(step.read("y").slice(1, 0, 100).clone(),
                     step.read("dq").slice(1, 0, 100).clone());
  };
  const auto [y, dq] = run(0);
  for (const double number : {kNan, kInfinity}) {
    const auto [y_beside, dq_beside] = run(number);
    CHECK(at::allclose(y_beside, y, 1e-5, 1e-6));
    CHECK(at::allclose(dq_beside, dq, 1e-5, 1e-6));
  }
}

TEST_CASE("rows whose target is ignored count for nothing") {
  const at::Tensor targets = at::tensor({1, -100, 0}, at::kLong);
  const at::Tensor hidden = booleans({0, 1, 0}, {3, 1}).expand({3, 4}).contiguous();
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{}, CrossEntropyOptions{.reduction = LossReduction::sum},
        CrossEntropyOptions{.label_smoothing = 0.1}}) {
    const auto declare = [&](Graph& g, const Values& in) {
      g.minimize(
          cross_entropy_loss(in[0], in[1], options) + g.parameter("unused", {f32, {}}, zeros()),
          Sgd{});
    };
    CHECK(looked_at(declare, {numbers({3, 4}), targets}, hidden) == "");
  }
}

TEST_CASE("what is dropped may be infinite") {
  Graph g("dropout");
  const Value x = g.input("x", f32, {1000});
  g.output("y", x.through(dropout(0.5)));
  for (const Target& target : {cpu_replay(), tests::device_of_host()}) {
    Executable step = compile(g, target, tests::plain_options());
    step.run({{x, at::full({1000}, kInfinity).to(at::kFloat)}});
    const at::Tensor y = step.read("y");
    CHECK_FALSE(at::isnan(y).any().item<bool>());
    CHECK(y.eq(0).sum().item<std::int64_t>() > 400);
  }
}

}  // namespace
}  // namespace metronome::masks_test
