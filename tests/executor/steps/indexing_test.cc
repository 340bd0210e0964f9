// The functions of ops/language/indexing.h: values and gradients as libtorch has them, on the CPU,
// by eager and on a device made of the host; ties, NaNs, indices out of range.
#include "ops/language/indexing.h"

#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/scatter_add.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/targets.h"

namespace metronome::indexing_test {
namespace {

using tests::OnEveryTarget;
using tests::plain_options;
using tests::vector_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Numbers between -1 and 1 that look random and are the same on every machine.
at::Tensor numbers(at::IntArrayRef shape, double seed = 0) {
  const at::Tensor steps = at::arange(c10::multiply_integers(shape), at::kDouble);
  return at::sin(steps * 12.9898 + seed).reshape(shape);
}

at::Tensor longs(std::vector<std::int64_t> values) { return at::tensor(values, at::kLong); }

using Ours = std::function<Value(Value x, Value index)>;
using Theirs = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& index)>;

/// Value and gradient of a function of x [4, 5] and of an index.
void check_agrees(const char* name, const at::Tensor& index, const Ours& ours,
                  const Theirs& theirs) {
  CAPTURE(name);
  const at::Tensor start = numbers({4, 5});
  const at::Tensor x = start.clone().requires_grad_(true), expected = theirs(x, index);
  const at::Tensor weights = numbers(expected.sizes(), 1);
  (expected * weights).sum().backward();

  Graph g("indexing");
  const Value parameter = g.parameter("x", {f64, {4, 5}}, zeros());
  const Value which = g.input("index", i64, index.sizes().vec());
  const Value y = ours(parameter, which), w = g.input("w", f64, weights.sizes().vec());
  g.output("y", y);
  g.minimize(sum(y * w), Sgd{.lr = 1});  // a step subtracts the gradient
  OnEveryTarget every(g);
  for (Executable& step : every.executables) step.set("x", start);
  every.run({{which, index}, {w, weights}});
  for (Executable& step : every.executables) {
    CHECK(at::allclose(step.read(y), expected, 1e-12, 1e-12));
    CHECK(at::allclose(start - step.get("x"), x.grad(), 1e-12, 1e-12));
  }
}

TEST_CASE("value and gradient are libtorch's: by index") {
  const at::Tensor across = longs({1, 1, 4, 0, 2, 2, 3, 0}).reshape({4, 2});
  const at::Tensor down = longs({3, 0, 3, 1, 3, 2}).reshape({2, 3}), list = longs({2, 0, 2, 3, 3});
  check_agrees(
      "gather", across, [](Value x, Value i) { return gather(x, -1, i); },
      [](const at::Tensor& x, const at::Tensor& i) { return at::gather(x, 1, i); });
  check_agrees(
      "gather, a smaller index", down, [](Value x, Value i) { return gather(x, 0, i); },
      [](const at::Tensor& x, const at::Tensor& i) { return at::gather(x, 0, i); });
  check_agrees(
      "scatter_add", across,
      [](Value x, Value i) { return scatter_add(x * x, -1, i, tanh(x.slice(1, 1, 3))); },
      [](const at::Tensor& x, const at::Tensor& i) {
        return at::scatter_add(x * x, 1, i, at::tanh(x.slice(1, 1, 3)));
      });
  const at::Tensor rows = longs({2, 0}), columns = longs({4, 0, 1});
  check_agrees(
      "index_copy, rows", rows,
      [](Value x, Value i) { return index_copy(x, 0, i, tanh(x.slice(0, 1, 3))) * x; },
      [](const at::Tensor& x, const at::Tensor& i) {
        return x.index_copy(0, i, at::tanh(x.slice(0, 1, 3))) * x;
      });
  check_agrees(
      "index_copy, columns", columns,
      [](Value x, Value i) { return index_copy(x, 1, i, square(x.slice(1, 0, 3))); },
      [](const at::Tensor& x, const at::Tensor& i) {
        return x.index_copy(1, i, x.slice(1, 0, 3).square());
      });
  check_agrees(
      "index_copy, a row", longs({3}),
      [](Value x, Value i) { return index_copy(x, 0, i, x.slice(0, 0, 1) * 2.0); },
      [](const at::Tensor& x, const at::Tensor& i) {
        return x.index_copy(0, i, x.slice(0, 0, 1) * 2.0);
      });
  check_agrees(
      "index_copy, equal rows: the last counts", longs({1, 3, 1}),
      [](Value x, Value i) { return index_copy(x, 0, i, x.slice(0, 0, 3)); },
      [](const at::Tensor& x, const at::Tensor&) {
        return x.index_copy(0, longs({3, 1}), x.slice(0, 1, 3));
      });
  check_agrees(
      "index_select, rows", list, [](Value x, Value i) { return index_select(x, 0, i); },
      [](const at::Tensor& x, const at::Tensor& i) { return at::index_select(x, 0, i); });
  check_agrees(
      "index_select, columns", list, [](Value x, Value i) { return index_select(x, -1, i); },
      [](const at::Tensor& x, const at::Tensor& i) { return at::index_select(x, 1, i); });
  check_agrees(
      "index_select, middle", list,
      [](Value x, Value i) { return index_select(x.reshape({2, 5, 2}), 1, i); },
      [](const at::Tensor& x, const at::Tensor& i) {
        return at::index_select(x.reshape({2, 5, 2}), 1, i);
      });
}

TEST_CASE("value and gradient are libtorch's: in order, along an axis, where a mask holds") {
  const at::Tensor none = longs({0});
  const auto check = [&](const char* name, const std::function<Value(Value)>& ours,
                         const std::function<at::Tensor(const at::Tensor&)>& theirs) {
    check_agrees(
        name, none, [&](Value x, Value) { return ours(x); },
        [&](const at::Tensor& x, const at::Tensor&) { return theirs(x); });
  };
  using T = const at::Tensor&;
  check("sort", [](Value x) { return sort(x).values; }, [](T x) { return std::get<0>(x.sort()); });
  check(
      "sort, descending", [](Value x) { return sort(x, 0, true).values; },
      [](T x) { return std::get<0>(x.sort(0, true)); });
  check(
      "topk", [](Value x) { return topk(x, 2).values; },
      [](T x) { return std::get<0>(x.topk(2)); });
  check(
      "topk, smallest", [](Value x) { return topk(x, 3, 0, false).values; },
      [](T x) { return std::get<0>(x.topk(3, 0, false)); });
  check(
      "by argsort", [](Value x) { return gather(square(x), 0, argsort(x, 0)); },
      [](T x) { return at::gather(x.square(), 0, x.argsort(std::int64_t{0})); });
  check("cumsum", [](Value x) { return cumsum(x, -1); }, [](T x) { return x.cumsum(1); });
  check(
      "cumsum, from behind", [](Value x) { return cumsum(x, 0, {.reverse = true}); },
      [](T x) { return x.flip(0).cumsum(0).flip(0); });
  check(
      "cumsum, exclusive", [](Value x) { return cumsum(x, 0, {.exclusive = true}); },
      [](T x) { return x.cumsum(0) - x; });
  check("flip", [](Value x) { return flip(x, {-1}) * x; }, [](T x) { return x.flip(1) * x; });
  check(
      "flip, both axes", [](Value x) { return flip(x, {0, 1}) * x; },
      [](T x) { return x.flip({0, 1}) * x; });
  check("flip, no axis", [](Value x) { return flip(x, {}); }, [](T x) { return x * 1; });
  for (const std::int64_t shift : {-7, -1, 0, 2, 5, 13}) {
    check(
        "roll", [=](Value x) { return roll(x, shift, 1) * x; },
        [=](T x) { return x.roll(shift, 1) * x; });
  }
  check(
      "masked_fill", [](Value x) { return masked_fill(x, x > 0.3, -1.5); },
      [](T x) { return x.masked_fill(x.gt(0.3), -1.5); });
  check(
      "masked_fill, a row's mask, a scalar's gradient",
      [](Value x) { return masked_fill(x, x.slice(0, 1, 2) > 0.0, sum(x)); },
      [](T x) { return x.masked_fill(x.slice(0, 1, 2).gt(0), x.sum()); });
}

TEST_CASE("equal elements stay in order, and a NaN is the largest") {
  const at::Tensor x = vector_of({kNan, 1, 2, 1, -kInfinity, kNan, 2});
  Graph g("order");
  const Value v = g.input("x", f64, {7});
  const Sorted up = sort(v), down = sort(v, 0, true), least = topk(v, 3, 0, false),
               most = topk(v, 3);
  g.output("up", up.indices), g.output("values", up.values), g.output("down", down.indices);
  g.output("least", least.indices), g.output("most", most.indices);
  const Value argmost = argmax(v), argleast = argmin(v), slowest = argmin(v.slice(0, 1, 5));
  g.output("argmost", argmost), g.output("argleast", argleast), g.output("slowest", slowest);
  OnEveryTarget every(g);
  every.run({{v, x}});
  for (Executable& step : every.executables) {
    CHECK(at::equal(step.read(up.indices), longs({4, 1, 3, 2, 6, 0, 5})));
    CHECK(at::equal(step.read(up.values).slice(0, 0, 5), vector_of({-kInfinity, 1, 1, 2, 2})));
    CHECK(at::isnan(step.read(up.values).slice(0, 5, 7)).all().item<bool>());
    CHECK(at::equal(step.read(down.indices), longs({0, 5, 2, 6, 1, 3, 4})));
    CHECK(at::equal(step.read(least.indices), longs({4, 1, 3})));
    CHECK(at::equal(step.read(most.indices), longs({0, 5, 2})));
    CHECK(step.read_scalar(argmost) == 0);
    CHECK(step.read_scalar(argleast) == 0);
    CHECK(step.read_scalar(slowest) == 3);
  }
}

TEST_CASE("the least integer is the smallest of all") {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  Graph g("least");
  const Value x = g.input("x", i64, {2, 3}), at = argmin(x);
  g.output("at", at);
  OnEveryTarget every(g);
  every.run({{x, longs({5, kLeast, kLeast, 3, -1, 7}).reshape({2, 3})}});
  for (Executable& step : every.executables) CHECK(at::equal(step.read(at), longs({1, 1})));
}

TEST_CASE("an index out of range reads zero, adds nothing and receives no gradient") {
  Graph g("stray");
  const Value x = g.parameter("x", {f64, {3}}, ones()), index = g.input("index", i64, {4});
  const Value read = gather(x, 0, index), taken = index_select(x, 0, index);
  const Value added = scatter_add(x, 0, index, g.constant({10, 20, 30, 40}, {f64, {4}}));
  g.output("read", read), g.output("taken", taken), g.output("added", added);
  g.minimize(sum(read * g.constant({1, 2, 4, 8}, {f64, {4}})), Sgd{.lr = 1});
  const at::Tensor stray = longs({2, 3, -1, 2});
  for (const Target& target : {cpu_replay(), stepwise(), tests::device_of_host()}) {
    Executable step = compile(g, target, plain_options());
    step.set("x", vector_of({5, 6, 7}));
    step.run({{index, stray}});
    CHECK(at::equal(step.read(read), vector_of({7, 0, 0, 7})));
    CHECK(at::equal(step.read(taken), vector_of({7, 0, 0, 7})));
    CHECK(at::equal(step.read(added), vector_of({5, 6, 57})));
    CHECK(at::equal(step.get("x"), vector_of({5, 6, -2})));
    CHECK(step.fault().value_or("").ends_with("index -1 is out of range 0 to 2"));
  }
  Executable torch = compile(g, eager(), plain_options());
  CHECK_THROWS_AS(torch.run({{index, stray}}), RunError);
}

TEST_CASE("sums by index have the same bits whatever the number of threads") {
  Graph g("bits");
  const Value x = g.input("x", f32, {40, 64}), index = g.input("index", i32, {900, 64});
  const Value source = g.input("source", f32, {900, 64});
  const Value sums = scatter_add(x, 0, index, source), running = cumsum(source, 0);
  g.output("sums", sums), g.output("running", running);
  const at::Tensor which = (numbers({900, 64}, 3).abs() * 40).to(at::kInt);
  const auto run = [&](int threads) {
    CompileOptions options = plain_options();
    options.threads = threads;
    Executable step = compile(g, cpu_replay(), options);
    step.run({{x, numbers({40, 64}).to(at::kFloat)},
              {index, which},
              {source, numbers({900, 64}, 1).to(at::kFloat)}});
    return std::vector{step.read(sums).clone(), step.read(running).clone()};
  };
  const auto one = run(1), two = run(2);
  CHECK(at::equal(one[0], two[0]));
  CHECK(at::equal(one[1], two[1]));
}

TEST_CASE("halves, integers and truths are moved by index") {
  Graph g("moved");
  const Value index = g.input("index", i32, {2, 2});
  const at::Tensor which = longs({0, 2, 1, 1}).reshape({2, 2});
  std::vector<std::pair<Value, at::Tensor>> feeds = {{index, which.to(at::kInt)}};
  Values moved;
  for (const auto& [element, type] : {std::pair{bf16, at::kBFloat16}, std::pair{f16, at::kHalf},
                                      std::pair{i32, at::kInt}, std::pair{bool_, at::kBool}}) {
    const std::string name(name_of(element));
    const Value x = g.input(name, element, {2, 3});
    feeds.emplace_back(x, numbers({2, 3}).mul(3).to(type));
    moved.push_back(gather(flip(x, {1}), 1, index));
    g.output("moved " + name, moved.back());
  }
  OnEveryTarget every(g);
  every.run(feeds);
  for (Executable& step : every.executables) {
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const at::Tensor x = feeds[i + 1].second;
      CHECK(at::equal(step.read(moved[i]), at::gather(x.flip(1), 1, which)));
    }
  }
}

}  // namespace
}  // namespace metronome::indexing_test
