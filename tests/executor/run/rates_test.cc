// Parameters that are frozen, or trained at rates and weight decays of their own.
#include <fmt/format.h>

#include <algorithm>

#include "graph/compounds/batch.h"
#include "graph/compounds/group.h"
#include "graph/ir/error.h"
#include "graph/passes/batch.h"
#include "graph/passes/fold.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "tests/executor/plain_optimizer.h"
#include "tests/executor/settings_of.h"
#include "tests/executor/targets.h"

namespace metronome::rates_test {
namespace {

using tests::OnEveryTarget;
using tests::PlainOptimizer;

/// Four blocks: two at rates of their own, one as it is, one of which the biases alone are trained.
struct Tower {
  Graph g{"tower"};
  Value x = g.input("x", f64, {4, 5});
  explicit Tower(const Optimizer& optimizer, bool scaled = true) {
    const Value y = x.scope("tower", [](Value h) {
      return h.repeat(4, [](Value v) { return v.through(linear(5)).through(tanh); });
    });
    g.minimize(mean(square(y - 0.25)), optimizer);
    if (!scaled) return;
    g.scale_learning_rate("tower/0", 0.1);
    g.scale_learning_rate("tower/*/linear/b*", 3);
    g.scale_learning_rate("tower/2/**", 1);
    g.scale_weight_decay("**/bias", 0);
    g.scale_weight_decay("tower/1", 4);
    g.freeze("**/3");
    g.thaw("tower/3/linear/bias");
  }
};

void check_planned_and_eager(const Optimizer& optimizer) {
  Tower tower(optimizer);
  OnEveryTarget runs(tower.g);
  const auto weight = [&] { return runs.replay().get("tower/3/linear/weight").clone(); };
  const at::Tensor frozen = weight();
  for (int step = 0; step < 10; ++step) {
    runs.run({{tower.x, at::linspace(-1, 2 - 0.1 * step, 20, at::kDouble).reshape({4, 5})}});
  }
  CHECK(at::equal(weight(), frozen));
}

TEST_CASE("three rates and frozen parameters: replayed steps agree with libtorch's optimizers") {
  check_planned_and_eager(Adam{.lr = 0.02});
  check_planned_and_eager(Adam{.lr = 0.02, .weight_decay = 0.2});
  check_planned_and_eager(Adam{.lr = Cosine{.lr = 0.02, .steps = 20}, .clip_norm = 0.1});
  check_planned_and_eager(AdamW{.lr = 0.02, .weight_decay = 0.1});
  check_planned_and_eager(Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  check_planned_and_eager(Sgd{.lr = 0.1});
}

TEST_CASE("a parameter's first update by SGD is its rate times what it would be") {
  const Tower plain(Sgd{.lr = 0.1}, false), scaled(Sgd{.lr = 0.1});
  const at::Tensor batch = at::linspace(-1, 2, 20, at::kDouble).reshape({4, 5});
  const std::pair<std::string, double> rates[] = {{"tower/0/linear/weight", 0.1},
                                                  {"tower/1/linear/bias", 3},
                                                  {"tower/2/linear/bias", 1},
                                                  {"tower/3/linear/weight", 0}};
  Executable one = compile(plain.g, cpu_replay(), tests::plain_options());
  Executable other = compile(scaled.g, cpu_replay(), tests::plain_options());
  std::vector<at::Tensor> before;
  for (const auto& [path, rate] : rates) before.push_back(one.get(path).clone());
  one.run({{plain.x, batch}});
  other.run({{scaled.x, batch}});
  for (std::size_t i = 0; i < std::size(rates); ++i) {
    const auto& [path, rate] = rates[i];
    CAPTURE(path);
    const at::Tensor change = one.get(path) - before[i], rated = other.get(path) - before[i];
    CHECK(change.abs().max().item<double>() > 1e-4);
    CHECK((rated - rate * change).abs().max().item<double>() <= 1e-15);
  }
}

TEST_CASE("without a gradient, AdamW and SGD shrink a parameter by its own weight decay") {
  for (const Optimizer& optimizer : {Optimizer(AdamW{.lr = 0.5, .weight_decay = 0.1}),
                                     Optimizer(Sgd{.lr = 0.5, .weight_decay = 0.1})}) {
    Graph g("decayed");
    Values sums;
    for (const char* name : {"whole", "half", "none"}) {
      sums.push_back(sum(g.parameter(name, {f64, {2}}, ones()) * 0.0));
    }
    g.scale_weight_decay("half", 0.5);
    g.scale_weight_decay("none", 0);
    g.minimize(sums[0] + sums[1] + sums[2], optimizer);
    OnEveryTarget runs(g);
    runs.run();
    const std::pair<const char*, double> expected[] = {
        {"whole", 0.95}, {"half", 0.975}, {"none", 1}};
    for (const auto& [path, number] : expected) {
      CHECK(runs.replay().get(path)[0].item<double>() == doctest::Approx(number).epsilon(1e-12));
    }
  }
}

TEST_CASE("an optimizer without a weight decay has none to scale") {
  Graph g("plain");
  const Value w = g.parameter("w", {f64, {2}}, ones());
  g.scale_weight_decay("w", 0.5);
  const Line line = Line::here();
  g.minimize(sum(w * w), PlainOptimizer{});
  CHECK_THROWS_WITH_AS(compile(g, cpu_replay(), tests::plain_options()),
                       fmt::format("{}: plain cannot scale the weight decay of \"w\" by 0.5\n"
                                   "  requires   an optimizer with a member `weight_decay`",
                                   to_string(Line{line.file, line.number + 1}))
                           .c_str(),
                       GraphError);
}

TEST_CASE("updates at all rates run as one node of a device, one of those that decay") {
  Tower tower(Adam{.weight_decay = 0.1, .clip_norm = 1.0});
  Settings settings = settings_of(null(), train);
  settings.buckets = 1;
  ir::Graph g = tower.g.data();
  for (const auto pass : {passes::lower, passes::differentiate, passes::update, passes::fold,
                          passes::share, passes::prune, passes::batch}) {
    g = pass(g, settings);
  }
  std::vector<int> counts;
  for (const Node& node : g.nodes()) {
    if (const auto* op = node.op->as<Batch>()) counts.push_back(op->count);
  }
  // Biases, but for those of the second block; its weight and bias, and two weights.
  std::ranges::sort(counts);
  CHECK(counts == std::vector<int>{3, 4});
}

}  // namespace
}  // namespace metronome::rates_test
