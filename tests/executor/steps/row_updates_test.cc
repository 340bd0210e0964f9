// Tables of which only those rows are updated that a step looked up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/record/plan_record.h"
#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::row_updates_test {
namespace {

using tests::error_of;
using tests::OnEveryTarget;

constexpr std::int64_t kTableRows = 40, kWidth = 3;

/// loss = the sum of weight * table[index], so that the gradient of a looked up row is its weight.
struct LookUp {
  Graph g{"lookup"};
  Value index, weight, table;
  LookUp(const Optimizer& optimizer, Element element, Shape shape = {2, 4},
         std::int64_t rows = kTableRows) {
    index = g.input("index", i64, shape);
    shape.push_back(kWidth);
    weight = g.input("weight", element, shape);
    table = g.parameter("table", {element, {rows, kWidth}}, normal(0, 1));
    g.minimize(sum(weight * embedding_lookup(table, index)), optimizer);
  }
};

at::Tensor indices(std::vector<std::int64_t> all, const Shape& shape = {2, 4}) {
  return at::tensor(all, at::kLong).reshape(shape);
}

bool runs(const Executable& step, std::string_view op) {
  const PlanRecord record = step.plan_record();
  return std::ranges::any_of(record.plans[0].nodes,
                             [&](const auto& node) { return node.op == op; });
}

Executable compiled(const Graph& g, const Target& target = cpu_replay()) {
  return compile(g, target, tests::plain_options());
}

TEST_CASE("SGD of looked up rows has the bits of SGD of the whole table") {
  for (const int threads : {1, 3}) {
    LookUp net(Sgd{.lr = 0.1}, f32);
    CompileOptions options = tests::plain_options();
    options.threads = threads;
    Executable step = compile(net.g, cpu_replay(), options);
    CHECK(runs(step, "index_copy"));
    CHECK_FALSE(runs(step, "embedding_grad"));
    CHECK(step.report().plan(train).copies == 0);
    at::Tensor table = step.get("table").clone();
    for (int k = 0; k < 3; ++k) {
      const at::Tensor index = indices({7, k, 7, 39, 0, 7, 39 - k, 7});
      const at::Tensor weight = at::randn({2, 4, kWidth});
      step.run({{net.index, index}, {net.weight, weight}});
      at::Tensor sums = at::zeros_like(table);
      for (int i = 0; i < 8; ++i) {
        sums[index.view(-1)[i].item<std::int64_t>()] += weight.view({8, kWidth})[i];
      }
      table += sums * -0.1F;
      CHECK(at::equal(step.get("table"), table));
    }
  }
}

TEST_CASE("every target updates the same rows") {
  for (const Sgd& sgd : {Sgd{.lr = 0.1}, Sgd{.lr = 0.1, .clip_norm = 0.5}}) {
    LookUp net(sgd, f64);
    OnEveryTarget all(net.g);
    for (int k = 0; k < 4; ++k) {
      all.run({{net.index, indices({7, k, 7, 39, 0, 7, 39 - k, 7})},
               {net.weight, at::randn({2, 4, kWidth}, at::kDouble)}});
    }
  }
}

TEST_CASE("an index out of range updates no row, and is reported where it is looked up") {
  LookUp net(Sgd{.lr = 0.1}, f32);
  Executable step = compiled(net.g);
  const at::Tensor before = step.get("table").clone();
  step.run({{net.index, indices({-1, kTableRows, 3, 3, 3, 3, 3, 3})},
            {net.weight, at::ones({2, 4, kWidth})}});
  REQUIRE(step.fault());
  CHECK_MESSAGE(step.fault()->starts_with("embedding \"embedding\" ("), *step.fault());
  CHECK_MESSAGE(step.fault()->ends_with("index -1 is out of range 0 to 39"), *step.fault());
  const at::Tensor changed = step.get("table").ne(before).any(1).nonzero().view(-1);
  CHECK(at::equal(changed, at::tensor({3}, at::kLong)));
}

TEST_CASE("the whole table is updated where all of it may change, or half of it is looked up") {
  for (const Sgd& sgd : {Sgd{.momentum = 0.9}, Sgd{.weight_decay = 0.1}, Sgd{.clip_norm = 1}}) {
    CHECK_FALSE(runs(compiled(LookUp(sgd, f32).g), "index_copy"));
  }
  CHECK_FALSE(runs(compiled(LookUp(Adam{}, f32).g), "index_copy"));
  CHECK(runs(compiled(LookUp(Sgd{}, f32, {kTableRows / 2}).g), "index_copy"));
  CHECK_FALSE(runs(compiled(LookUp(Sgd{}, f32, {kTableRows / 2 + 1}).g), "index_copy"));
}

constexpr std::int64_t kLargeRows = (1 << 20) / kWidth + 1;  // over 2^20 elements

/// Whether a step of the large table makes no gradient of its size.
bool spares_the_gradient(const Optimizer& optimizer, std::int64_t looked_up,
                         std::int64_t rows = kLargeRows) {
  const Executable step = compiled(LookUp(optimizer, f32, {looked_up}, rows).g);
  CHECK(runs(step, "adam_table_update") != runs(step, "embedding_grad"));
  return runs(step, "adam_table_update");
}

TEST_CASE("Adam of a large table makes its gradient where users clip it, or look up many rows") {
  for (const Optimizer& adam : {Optimizer(Adam{}), Optimizer(AdamW{})}) {
    CHECK(spares_the_gradient(adam, kLargeRows / 16));
    CHECK_FALSE(spares_the_gradient(adam, kLargeRows / 16 + 1));
    CHECK_FALSE(spares_the_gradient(adam, 8, kLargeRows - 1));
  }
  CHECK_FALSE(spares_the_gradient(Adam{.clip_norm = 1}, 8));
  CHECK(spares_the_gradient(Adam{.weight_decay = 0.1}, 8));
}

/// Steps of some threads; the whole gradient is made for the second one, whose limit clips nothing.
template <class Rule>
void check_bits(Rule rule, int threads) {
  CAPTURE(threads);
  const LookUp spared(rule, f32, {2, 4}, kLargeRows);
  rule.clip_norm = 1e30;
  const LookUp made(rule, f32, {2, 4}, kLargeRows);
  CompileOptions options = tests::plain_options();
  options.threads = threads;
  Executable step = compile(spared.g, cpu_replay(), options);
  Executable whole = compile(made.g, cpu_replay(), options);
  CHECK(step.report().plan(train).copies == 0);
  CHECK(step.report().arena_bytes < 100'000);
  for (int k = 0; k < 3; ++k) {
    const std::int64_t last = kLargeRows - 1;
    const at::Tensor index = indices({7, k, 7, last, 0, 7, last - k, 7});
    const at::Tensor weight = at::randn({2, 4, kWidth});
    step.run({{spared.index, index}, {spared.weight, weight}});
    whole.run({{made.index, index}, {made.weight, weight}});
  }
  for (const char* path : {"table", "optimizer/exp_avg/table", "optimizer/exp_avg_sq/table"}) {
    CHECK(at::equal(step.get(path), whole.get(path)));
  }
}

TEST_CASE("Adam of a large table has the bits of a step by its whole gradient") {
  for (const int threads : {1, 3}) {
    check_bits(Adam{.lr = 0.1}, threads);
    check_bits(Adam{.lr = 0.1, .weight_decay = 0.1}, threads);
    check_bits(AdamW{.lr = 0.1}, threads);
  }
}

TEST_CASE("gradients of a table that users read are those of all rows") {
  LookUp net(Sgd{.lr = 0.1}, f64);
  net.g.output("gradient", net.g.gradient(net.table));
  OnEveryTarget all(net.g);
  const at::Tensor weight = at::randn({2, 4, kWidth}, at::kDouble);
  all.run({{net.index, indices({1, 1, 2, 3, 4, 5, 6, 7})}, {net.weight, weight}});
  const at::Tensor gradient = all.replay().read("gradient");
  CHECK(gradient.sizes() == at::IntArrayRef({kTableRows, kWidth}));
  CHECK(at::equal(gradient[1], weight[0][0] + weight[0][1]));
  CHECK(gradient[8].eq(0).all().item<bool>());
}

/// torch.optim.SparseAdam on the host, in f64.
struct SparseAdam {
  at::Tensor table, m = at::zeros_like(table), v = at::zeros_like(table);
  double lr = 0.1;
  int t = 0;
  void step(const at::Tensor& index, at::Tensor weight, double factor = 1) {
    ++t;
    at::Tensor sums = at::zeros_like(table);
    sums.index_add_(0, index.view(-1), weight.reshape({-1, kWidth}) * factor);
    const double step = lr / (1 - std::pow(0.9, t)), root = std::sqrt(1 - std::pow(0.999, t));
    for (std::int64_t row = 0; row < kTableRows; ++row) {
      if (!index.eq(row).any().item<bool>()) continue;
      m[row] = m[row] * 0.9 + sums[row] * 0.1;
      v[row] = v[row] * 0.999 + sums[row].square() * 0.001;
      table[row] -= step * m[row] / (v[row].sqrt() / root + 1e-8);
    }
  }
};

TEST_CASE("lazy Adam is torch.optim.SparseAdam, on every target but eager") {
  LookUp net(Adam{.lr = 0.1, .lazy = true}, f64);
  std::vector<Executable> all;
  for (const Target& target : {cpu_replay(), stepwise(), tests::device_of_host()}) {
    all.push_back(compiled(net.g, target));
  }
  SparseAdam expected{all[0].get("table").clone()};
  for (int k = 0; k < 5; ++k) {
    const at::Tensor index = indices({7, k, 7, 39, 0, 7, 39 - k, 7});
    const at::Tensor weight = at::randn({2, 4, kWidth}, at::kDouble);
    expected.step(index, weight);
    for (Executable& step : all) {
      step.run({{net.index, index}, {net.weight, weight}});
      CHECK(at::allclose(step.get("table"), expected.table, 1e-12, 1e-12));
      CHECK(at::allclose(step.get("optimizer/exp_avg/table"), expected.m, 1e-12, 1e-12));
      CHECK(at::allclose(step.get("optimizer/exp_avg_sq/table"), expected.v, 1e-12, 1e-12));
    }
  }
  CHECK_FALSE(runs(all[0], "embedding_grad"));
  CHECK(all[0].report().plan(train).copies == 0);
}

TEST_CASE("lazy Adam clips by the norm of all gradients") {
  LookUp net(Adam{.lr = 0.1, .clip_norm = 0.5, .lazy = true}, f64);
  Executable step = compiled(net.g);
  SparseAdam expected{step.get("table").clone()};
  for (int k = 0; k < 3; ++k) {
    const at::Tensor index = indices({0, 1, 2, 3, 4, 5, 6, 7 + k});
    const at::Tensor weight = at::randn({2, 4, kWidth}, at::kDouble);
    expected.step(index, weight, 0.5 / (weight.norm().item<double>() + 1e-6));
    step.run({{net.index, index}, {net.weight, weight}});
    CHECK(at::allclose(step.get("table"), expected.table, 1e-12, 1e-12));
  }
}

TEST_CASE("lazy Adam updates all rows of a table that is read in another way, too") {
  Graph g("tied");
  const Value index = g.input("index", i64, {4});
  const Value table = g.parameter("table", {f64, {kTableRows, kWidth}}, normal(0, 1));
  const Value h = embedding_lookup(table, index);
  g.minimize(mean(square(matmul(h, table.transpose(0, 1)))), Adam{.lazy = true});
  Executable step = compiled(g);
  const at::Tensor before = step.get("table").clone();
  step.run({{index, indices({1, 2, 3, 4}, {4})}});
  CHECK(step.get("table").ne(before).any(1).all().item<bool>());
}

TEST_CASE("lazy Adam refuses a weight decay, and eager refuses lazy Adam") {
  Graph g("decayed");
  const Value table = g.parameter("table", {f32, {kTableRows, kWidth}}, {});
  const Value loss = mean(embedding_lookup(table, g.input("index", i64, {4})));
  const std::string line = fmt::format("{}:{}", __FILE__, __LINE__ + 1);
  g.minimize(loss, Adam{.weight_decay = 0.1, .lazy = true});
  CHECK_THROWS_WITH_AS(g.validate(),
                       (line + ": adam cannot train the graph\n  requires   no weight_decay for "
                               "lazy, as most rows would miss theirs, but 0.1")
                           .c_str(),
                       GraphError);
  LookUp net(Adam{.lazy = true}, f32);
  CHECK(error_of<RunError>([&] { compiled(net.g, eager()); }) ==
        "graph \"lookup\": eager trains by libtorch's own optimizers, and the optimizer \"adam\", "
        "which is lazy, is none of them; compile for another target, such as cpu_replay or "
        "stepwise, or minimize with Adam, AdamW or Sgd");
}

}  // namespace
}  // namespace metronome::row_updates_test
