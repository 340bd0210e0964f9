// Rows shared out among experts: who takes which, what is dropped, and what flows back.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "graph/ir/graph.h"
#include "ops/route/route.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace routing_test {
namespace {

namespace mt = metronome;
using namespace metronome;

at::Tensor matrix(std::vector<double> numbers, std::int64_t columns) {
  return at::tensor(numbers, at::TensorOptions(at::kDouble)).reshape({-1, columns});
}

/// Numbers between -1 and 1 that look random and are the same on every machine.
at::Tensor numbers(std::int64_t rows, std::int64_t columns, double seed) {
  const auto steps = at::arange(rows * columns, at::TensorOptions(at::kDouble));
  return at::sin(steps * 12.9898 + seed).reshape({rows, columns});
}

/// A router that gives an input as it is.
Layer given(Value weights) {
  return [weights](Value) { return weights; };
}

/// Expert e multiplies by 10 to the power e.
Layer power_of_ten(int e) {
  return [e](Value h) { return h * std::pow(10.0, e); };
}

Layer dense(std::int64_t width) {
  return [=](Value h) { return h.through(linear(width)).through(gelu).through(layer_norm()); };
}

Layer softmax_router(std::int64_t experts) {
  return [=](Value h) { return h.through(linear(experts)).through(softmax()); };
}

Executable compiled(const Graph& graph, const Target& target = cpu_replay(), bool poison = false) {
  CompileOptions options;
  options.threads = 1;
  options.tune = Tune::off;
  options.poison = poison;
  return compile(graph, target, options);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST_CASE("each row goes to the experts that weigh most, of equal ones to the first") {
  Graph g("top");
  const Value x = g.input("x", f64, {4, 1}), w = g.input("w", f64, {4, 3});
  const Value one = x.route(given(w), power_of_ten, {.top = 1, .capacity = 3});
  const Value two = x.route(given(w), power_of_ten, {.top = 2, .capacity = 3});
  const Value lost = dropped(two);
  g.output("one", one), g.output("two", two), g.output("lost", lost);
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compiled(g, target);
    step.run({{x, matrix({1, 2, 3, 4}, 1)},
              {w, matrix({0.5, 0.3, 0.2,    // 0, then 1
                          0.1, 0.1, 0.8,    // 2, then 0
                          0.25, 0.5, 0.25,  // 1, then 0
                          -1, -3, -2},      // 0, then 2
                         3)}});
    CHECK(distance(step.read(one), matrix({0.5, 160, 15, -4}, 1)) <= 1e-12);
    CHECK(distance(step.read(two), matrix({3.5, 160.2, 15.75, -804}, 1)) <= 1e-12);
    CHECK(step.read_scalar(lost) == 0);
  }
}

TEST_CASE("rows of several dimensions are routed as rows, and stand where they stood") {
  Graph flat("flat"), cube("cube");
  const auto declare = [](Graph& g, Shape shape) {
    const Value x = g.input("x", f64, std::move(shape));
    const Value y = x.route(softmax_router(3), [](int) { return dense(5); }, {.top = 2});
    g.output("y", y), g.output("lost", dropped(y));
    g.minimize(mean(square(y)) + 0.1 * balance_loss(y), Sgd{.lr = 0.1});
  };
  declare(flat, {8, 4}), declare(cube, {2, 4, 4});
  Executable rows = compiled(flat), cubes = compiled(cube);
  for (int step = 0; step < 3; ++step) {
    rows.run({{"x", numbers(8, 4, step)}});
    cubes.run({{"x", numbers(8, 4, step).reshape({2, 4, 4})}});
    CHECK(cubes.read("y").equal(rows.read("y").reshape({2, 4, 5})));
    CHECK(cubes.read("lost").equal(rows.read("lost")));
  }
  for (const std::string& path : rows.storages()) CHECK(rows.get(path).equal(cubes.get(path)));
}

TEST_CASE("first choices take the slots in the order of the rows, then second ones") {
  Graph g("dropped");
  const Value x = g.input("x", f64, {4, 1}), w = g.input("w", f64, {4, 2});
  // ceil(0.75 * 4 * 2 / 2) = 3 slots each.
  const Value y = x.route(given(w), power_of_ten, {.top = 2, .capacity = 0.75});
  g.output("y", y);
  const Value lost = dropped(y);
  g.output("lost", lost);
  CHECK(lost.type() == Type{i64, {}});
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compiled(g, target);
    // Expert 1 takes row 1, whose first choice it is, then rows 0 and 2: none is left for row 3.
    // Expert 0 takes rows 0, 2 and 3: none is left for row 1.
    step.run({{x, matrix({1, 1, 1, 1}, 1)}, {w, matrix({3, 2, 4, 5, 7, 6, 9, 8}, 2)}});
    CHECK(distance(step.read(y), matrix({23, 50, 67, 9}, 1)) == 0);
    CHECK(step.read_scalar(lost) == 2);
    // All choose expert 0 first, so row 3 loses it, and expert 1 as well.
    step.run({{x, matrix({1, 1, 1, 1}, 1)}, {w, matrix({2, 1, 2, 1, 2, 1, 2, 1}, 2)}});
    CHECK(distance(step.read(y), matrix({12, 12, 12, 0}, 1)) == 0);
    CHECK(step.read_scalar(lost) == 2);
  }
}

bool routes_rows(const Graph& g) {
  return std::ranges::any_of(g.data().nodes(),
                             [](const Node& n) { return n.op->as<Route>() != nullptr; });
}

/// Ten steps of the mixture by `mix`, in f64, from weights that do not depend on the verb's name.
std::vector<at::Tensor> trained(const std::string& verb, const std::function<Value(Value)>& mix) {
  Graph g("mixture");
  const Value x = g.input("x", f64, {12, 5}), target = g.input("target", f64, {12, 5});
  const Value h = x.through(linear(5)), y = mix(h);
  g.output("y", y);
  const Value inward = g.gradient(h);
  g.minimize(mse_loss(y, target), Adam{.lr = 1e-2});
  CHECK(routes_rows(g) == (verb == "route"));
  Executable step = compiled(g);
  std::vector<std::string> paths;
  for (const Storage& storage : g.data().storages()) {
    if (storage.kind != StorageKind::parameter) continue;
    paths.push_back(storage.path);
    const auto shape = storage.type.shape;
    const at::Tensor start = numbers(1, storage.type.numel(), 0.1 * paths.size()).reshape(shape);
    step.set(storage.path, start);
  }
  std::vector<at::Tensor> results;
  for (int i = 0; i < 10; ++i) {
    step.run({{x, numbers(12, 5, i)}, {target, numbers(12, 5, 100 + i)}});
    results.push_back(step.read(y).clone());
    results.push_back(step.read(inward).clone());
  }
  for (const std::string& path : paths) {
    CAPTURE(path);
    CHECK((path.starts_with("linear/") || path.starts_with(verb + "/")));
    results.push_back(step.get(path).clone());
  }
  return results;
}

void check_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, distance(a[i], b[i]));
  CHECK(worst <= 1e-12);
}

const auto expert_of_width_5 = [](int) { return dense(5); };

TEST_CASE("with all experts and room for all rows it is the dense mixture") {
  const auto gated =
      trained("gate", [](Value h) { return h.gate(softmax_router(4), expert_of_width_5); });
  const auto routed = trained("route", [](Value h) {
    return h.route(softmax_router(4), expert_of_width_5, {.top = 4, .capacity = 1});
  });
  check_equal(gated, routed);
}

TEST_CASE("slots that no row has leave no trace, in results and in gradients") {
  // Room for all rows at each expert, though each row chooses but two of the four.
  const auto routed = trained("route", [](Value h) {
    const auto expert = [](int) -> Layer {
      return [](Value v) {
        CHECK(v.size(0) == 12);
        return v.through(dense(5));
      };
    };
    return h.route(softmax_router(4), expert, {.top = 2, .capacity = 1e300});
  });
  // The dense mixture has no slots; its router keeps the two largest weights.
  const auto masked = trained("gate", [](Value h) {
    const Layer two_largest = [](Value v) {
      const Value w = v.through(softmax_router(4));
      const Value largest = max(w, 1, true);
      const Value second = max(where(w < largest, w, 0.0), 1, true);
      return where(w >= stop_gradient(second), w, 0.0);
    };
    return h.gate(two_largest, expert_of_width_5);
  });
  check_equal(routed, masked);
}

TEST_CASE("the balance loss is 1 where rows are spread evenly, and more where they crowd") {
  Graph g("balance");
  const Value x = g.input("x", f64, {4, 1}), w = g.input("w", f64, {4, 2});
  const Value even = balance_loss(x.route(given(w), power_of_ten, {.top = 2, .capacity = 0.1}));
  const Value loss = balance_loss(x.route(given(w), power_of_ten, {.top = 1, .capacity = 0.1}));
  g.output("even", even), g.output("loss", loss);
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compiled(g, target);
    const at::Tensor rows = matrix({1, 1, 1, 1}, 1);
    step.run({{x, rows}, {w, matrix({0.9, 0.1, 0.1, 0.9, 0.8, 0.2, 0.2, 0.8}, 2)}});
    CHECK(step.read_scalar(loss) == doctest::Approx(1).epsilon(1e-12));
    // Three of four rows choose expert 0, whose mean weight is 0.7: 2 (3/4 * 0.7 + 1/4 * 0.3).
    step.run({{x, rows}, {w, matrix({0.9, 0.1, 0.8, 0.2, 0.8, 0.2, 0.3, 0.7}, 2)}});
    CHECK(step.read_scalar(loss) == doctest::Approx(1.2).epsilon(1e-12));
    // Choices count before any is dropped: each row chooses both experts.
    CHECK(step.read_scalar(even) == doctest::Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("replay, stepwise, eager and dead bytes: ten steps in which rows are dropped") {
  Graph g("routed");
  const Value x = g.input("x", f64, {9, 4}), target = g.input("target", f64, {9, 4});
  const auto experts = [](int) { return dense(4); };
  const Value y = x.through(linear(4)).route(softmax_router(5), experts, {.top = 3, .capacity = 1});
  const Value lost = dropped(y), balance = balance_loss(y);
  g.output("lost", lost);
  g.minimize(mse_loss(y, target) + 0.1 * balance, Adam{.lr = 1e-3});
  std::vector<Executable> runs;
  for (const Target& t : {cpu_replay(), stepwise(), eager()}) runs.push_back(compiled(g, t));
  runs.push_back(compiled(g, cpu_replay(), true));
  std::vector<double> counts;
  // From here two or three choices a step find no slot, wherever ten steps of Adam may lead.
  const at::Tensor router = 3 * numbers(5, 4, 2);
  for (Executable& run : runs) {
    run.set("linear/weight", 2 * numbers(4, 4, 2));
    run.set("linear/bias", at::zeros({4}, at::TensorOptions(at::kDouble)));
    run.set("route/router/linear/weight", router);
    run.set("route/router/linear/bias", at::zeros({5}, at::TensorOptions(at::kDouble)));
  }
  for (int i = 0; i < 10; ++i) {
    for (Executable& run : runs) run.run({{x, numbers(9, 4, i)}, {target, numbers(9, 4, 50 + i)}});
    counts.push_back(runs[0].read_scalar(lost));
    CHECK(runs[1].read_scalar(lost) == counts.back());
    CHECK(runs[2].read_scalar(lost) == counts.back());
    for (const std::string& path : runs[0].storages()) {
      CAPTURE(path);
      CHECK(at::equal(runs[0].get(path), runs[1].get(path)));
      CHECK(at::equal(runs[0].get(path), runs[3].get(path)));
      CHECK(distance(runs[0].get(path), runs[2].get(path)) <= 1e-12);
    }
  }
  CHECK(*std::min_element(counts.begin(), counts.end()) > 0);
  CHECK(*std::max_element(counts.begin(), counts.end()) >
        *std::min_element(counts.begin(), counts.end()));
  CHECK(distance(runs[0].get("route/router/linear/weight"), router) > 1e-3);
}

TEST_CASE("the balance loss alone trains the router towards even loads") {
  Graph g("balance");
  const Value x = g.input("x", f64, {16, 4});
  const auto experts = [](int) { return dense(4); };
  const Value y = x.route(softmax_router(4), experts, {.top = 1, .capacity = 1});
  const Value lost = dropped(y), balance = balance_loss(y);
  g.output("lost", lost);
  g.minimize(balance, Adam{.lr = 3e-2});
  Executable step = compiled(g);
  step.set("route/router/linear/bias", at::tensor({2.0, 0.0, 0.0, 0.0}));
  const at::Tensor rows = numbers(16, 4, 0);
  step.run({{x, rows}});
  const double begin = step.read_scalar(balance), lost_at_first = step.read_scalar(lost);
  for (int i = 0; i < 200; ++i) step.run({{x, rows}});
  CHECK(begin > 1.5);
  CHECK(step.read_scalar(balance) < 1.1);
  CHECK(lost_at_first >= 10);
  CHECK(step.read_scalar(lost) <= 4);
}

TEST_CASE("results of any rank, one expert, no row") {
  Graph g("shapes");
  const Value x = g.input("x", f64, {6, 4}), none = g.input("none", f64, {0, 4});
  const Layer cube = [](Value h) { return h.through(linear(6)).reshape({-1, 2, 3}); };
  const Layer number = [](Value h) { return sum(h, 1); };
  const Value cubes = x.route(softmax_router(2), {cube, cube}, {.top = 2, .capacity = 1});
  const Value scalars = x.route(softmax_router(1), {number});
  const Value empty = none.route(softmax_router(2), {dense(3), dense(3)});
  CHECK(cubes.type() == Type{f64, {6, 2, 3}});
  CHECK(scalars.type() == Type{f64, {6}});
  CHECK(empty.type() == Type{f64, {0, 3}});
  g.output("cubes", cubes), g.output("scalars", scalars), g.output("empty", empty);
  const Value lost = dropped(empty), balance = balance_loss(empty);
  g.output("lost", lost), g.output("balance", balance);
  g.minimize(mean(cubes) + mean(scalars) + sum(empty), Sgd{.lr = 0.1});
  Executable replay = compiled(g), torch = compiled(g, eager());
  const at::Tensor rows = numbers(6, 4, 0);
  for (int i = 0; i < 3; ++i) {
    for (Executable* run : {&replay, &torch})
      run->run({{x, rows}, {none, at::zeros({0, 4}, at::kDouble)}});
    CHECK(distance(replay.read(cubes), torch.read(cubes)) <= 1e-12);
    CHECK(distance(replay.read(scalars), rows.sum(1)) <= 1e-12);  // the one weight is 1
  }
  CHECK(replay.read_scalar(lost) == 0);
  CHECK(replay.read_scalar(balance) == 0);
}

}  // namespace

}  // namespace routing_test
