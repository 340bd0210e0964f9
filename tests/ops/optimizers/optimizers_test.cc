// Optimizers as graph expressions against libtorch's: the same parameters after 100 updates.
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <cmath>
#include <limits>
#include <string>

#include <algorithm>
#include <functional>

#include "executor/metronome.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "ops/elementwise/elementwise.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/optimizers/optimizers.h"
#include "ops/reference/optimizers.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/ops/interpreter.h"

namespace metronome {

namespace {

constexpr int kUpdates = 100;

// Two parameters and a target that moves, so that the norm of the gradients passes 1 both ways.
struct Problem {
  explicit Problem(Element element = f64) : options(to_torch(element)), element(element) {
    // Odd sizes: tails of vectors count, too.
    a = at::linspace(-2, 2, 15, options).reshape({3, 5});
    b = at::linspace(1, -1, 7, options);
  }
  at::Tensor target(int step) const {
    return at::linspace(0, 1, 15, options).reshape({3, 5}).mul(1.2 * std::sin(0.3 * step));
  }

  at::TensorOptions options;
  Element element;
  at::Tensor a, b;
};

Graph declared(const Problem& problem, const Optimizer& optimizer) {
  Graph g("problem");
  const Value target = g.input("target", problem.element, {3, 5});
  const Value a = g.parameter("a", {problem.element, {3, 5}}, {});
  const Value b = g.parameter("b", {problem.element, {7}}, {});
  g.minimize(0.5 * sum(square(a - target)) + sum(exp(0.3 * b)), optimizer);
  g.validate();
  return g;
}

at::Tensor loss_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& target) {
  return a.sub(target).square().sum().mul(0.5).add(b.mul(0.3).exp().sum());
}

ir::Graph trained(const ir::Graph& g) {
  return passes::prune(passes::update(passes::differentiate(passes::lower(g, {}), {}), {}), {});
}

// Parameters after `updates` steps of the graph's own kernels.
Tensors replayed(const Problem& problem, const Optimizer& optimizer, int updates = kUpdates) {
  const ir::Graph g = trained(declared(problem, optimizer));
  Interpreter run(g);
  for (const Storage& storage : g.storages()) {
    run.set(storage.path,
            at::zeros(storage.type.shape, at::TensorOptions(to_torch(storage.type.element))));
  }
  run.set("a", problem.a), run.set("b", problem.b);
  for (int step = 0; step < updates; ++step) {
    run.set("target", problem.target(step));
    run.run();
    Tensors next;
    for (const Assignment& x : g.assignments()) next.push_back(run.tensor(x.value).clone());
    for (std::size_t i = 0; i < next.size(); ++i) {
      run.set(g.storage(g.assignments()[i].storage).path, next[i]);
    }
  }
  run.run();
  Tensors result;
  for (const Storage& storage : g.storages()) {
    if (storage.kind != StorageKind::parameter) continue;
    const auto id = *g.find_storage(storage.path);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(g.nodes().size()); ++i) {
      const Read* read = g.nodes()[i].op->as<Read>();
      if (read != nullptr && read->storage == id) result.push_back(run.tensor({i, 0}).clone());
    }
  }
  return result;
}

// One update of the parameters that hold gradients.
using Step = std::function<void(const Tensors& parameters, int update)>;

Tensors unplanned(const Problem& problem, const Step& step, int updates = kUpdates) {
  Tensors parameters = {problem.a.clone().requires_grad_(true),
                        problem.b.clone().requires_grad_(true)};
  for (int update = 0; update < updates; ++update) {
    for (at::Tensor& p : parameters) p.mutable_grad() = at::Tensor();
    loss_of(parameters[0], parameters[1], problem.target(update)).backward();
    step(parameters, update);
  }
  return {parameters[0].detach(), parameters[1].detach()};
}

// libtorch's fused kernels.
Step fused(const Optimizer& optimizer) {
  auto slots = std::make_shared<std::vector<Tensors>>();
  return [=](const Tensors& parameters, int update) {
    if (update == 0) {
      for (std::size_t k = 0; k < optimizer->moments().size(); ++k) {
        slots->push_back({at::zeros_like(parameters[0]), at::zeros_like(parameters[1])});
        for (at::Tensor& slot : slots->back()) slot = slot.detach();
      }
    }
    reference_step(*optimizer, {parameters[0].detach(), parameters[1].detach()},
                   {parameters[0].grad(), parameters[1].grad()}, *slots, {update});
  };
}

void check_equal(const Tensors& actual, const Tensors& expected, double relative) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0;
  for (const at::Tensor& x : expected) largest = std::max(largest, x.abs().max().item<double>());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double worst = actual[i].sub(expected[i]).abs().max().item<double>();
    CHECK(worst <= relative * largest);
  }
}

const std::vector<LearningRate>& schedules() {
  static const std::vector<LearningRate> all = {0.02,
                                                ConstantRate{.lr = 0.02, .factor = 0.5, .steps = 7},
                                                LinearWarmup{.lr = 0.02, .steps = 30},
                                                Cosine{.lr = 0.02, .steps = 60, .minimum = 1e-3},
                                                StepDecay{.lr = 0.02, .every = 30, .gamma = 0.5},
                                                LearningRate(LinearWarmup{.lr = 0.02, .steps = 10})
                                                    .then(10, Cosine{.lr = 0.02, .steps = 90})};
  return all;
}

template <class T>
void check_all(T rule) {
  for (const LearningRate& schedule : schedules()) {
    for (const std::optional<double> clip : {std::optional<double>(), std::optional(1.0)}) {
      rule.lr = schedule;
      rule.clip_norm = clip;
      INFO(T::name, " ", rule.attributes());
      const Problem problem;
      check_equal(replayed(problem, rule), unplanned(problem, fused(rule)), 1e-9);
    }
  }
}

}  // namespace

TEST_CASE("Adam agrees with libtorch's fused Adam over 100 updates") {
  check_all(Adam{});
  check_all(Adam{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .weight_decay = 0.1});
}

TEST_CASE("AdamW agrees with libtorch's fused AdamW over 100 updates") {
  check_all(AdamW{});
  check_all(AdamW{.beta1 = 0.8, .weight_decay = 0.2});
}

TEST_CASE("SGD agrees with libtorch's fused SGD over 100 updates") {
  check_all(Sgd{});
  check_all(Sgd{.weight_decay = 0.1});
  check_all(Sgd{.momentum = 0.9});
  check_all(Sgd{.momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1});
  check_all(Sgd{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
}

TEST_CASE("compiled replays, and eager ones, make the same 100 updates") {
  const Problem problem;
  const auto check = [&](const Optimizer& optimizer) {
    const Tensors expected = unplanned(problem, fused(optimizer));
    for (const Target& target : {cpu_replay(), eager()}) {
      Executable step = compile(declared(problem, optimizer), target, {.tune = Tune::off});
      step.set("a", problem.a), step.set("b", problem.b);
      for (int update = 0; update < kUpdates; ++update) {
        step.run({{"target", problem.target(update)}});
      }
      CHECK(step.updates() == kUpdates);
      check_equal({step.get("a"), step.get("b")}, expected, 1e-9);
    }
  };
  const LearningRate schedule = schedules().back();
  check(Adam{.lr = schedule, .weight_decay = 0.1, .clip_norm = 1.0});
  check(AdamW{.lr = schedule});
  check(Sgd{.lr = schedule, .momentum = 0.9, .dampening = 0.5, .clip_norm = 1.0});
  check(Sgd{.lr = schedule});
}

TEST_CASE("f32 parameters agree with libtorch's fused kernels up to rounding") {
  const Problem problem(f32);
  const auto check = [&](const Optimizer& optimizer) {
    check_equal(replayed(problem, optimizer, 5), unplanned(problem, fused(optimizer), 5), 2e-6);
  };
  check(Adam{.lr = 0.02, .weight_decay = 0.1});
  check(AdamW{.lr = 0.02, .clip_norm = 1.0});
  check(Sgd{.lr = 0.02, .momentum = 0.9, .dampening = 0.5, .clip_norm = 1.0});
}

TEST_CASE("optimizers agree with torch::optim, which shares no code with the fused kernels") {
  const Problem problem;
  // torch::optim::Adam and its like, made at the first update for the parameters given there.
  const auto unfused = [](const auto& make, const LearningRate& schedule) -> Step {
    auto optimizer = std::make_shared<std::unique_ptr<torch::optim::Optimizer>>();
    return [=](const Tensors& parameters, int update) {
      if (update == 0) *optimizer = make(parameters);
      for (auto& group : (*optimizer)->param_groups()) group.options().set_lr(schedule.at(update));
      (*optimizer)->step();
    };
  };
  const LearningRate schedule = Cosine{.lr = 0.02, .steps = 60};
  SUBCASE("Adam") {
    const auto make = [](const Tensors& p) {
      return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions().weight_decay(0.1));
    };
    check_equal(replayed(problem, Adam{.lr = schedule, .weight_decay = 0.1}),
                unplanned(problem, unfused(make, schedule)), 1e-9);
  }
  SUBCASE("AdamW") {
    const auto make = [](const Tensors& p) { return std::make_unique<torch::optim::AdamW>(p); };
    check_equal(replayed(problem, AdamW{.lr = schedule}),
                unplanned(problem, unfused(make, schedule)), 1e-9);
  }
  SUBCASE("SGD") {
    const auto make = [](const Tensors& p) {
      return std::make_unique<torch::optim::SGD>(
          p, torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.5).weight_decay(0.1));
    };
    const Sgd rule{.lr = schedule, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1};
    check_equal(replayed(problem, rule), unplanned(problem, unfused(make, schedule)), 1e-9);
  }
}

TEST_CASE("the update multiplies by the clipping factor: no scaled gradient is written") {
  const auto products = [](const Optimizer& optimizer) {
    const ir::Graph g = trained(declared(Problem(), optimizer));
    return std::count_if(g.nodes().begin(), g.nodes().end(), [](const Node& node) {
      const auto* op = node.op->as<Elementwise>();
      return op != nullptr && op->function == Function::mul &&
             node.path.get().starts_with("optimizer") && node.types[0].numel() > 1;
    });
  };
  CHECK(products(Adam{.clip_norm = 1.0}) == 0);
  CHECK(products(Sgd{.clip_norm = 1.0}) == 0);
}

TEST_CASE("a gradient that is not a number makes every clipped gradient so") {
  Graph g("clip");
  const Value x = g.input("x", f64, {3}), y = g.input("y", f64, {2});
  const Values clipped = clip_gradients({x, y}, 1.0);
  g.validate();
  Interpreter run(g);
  run.set("x", at::full({3}, std::nan(""), at::TensorOptions(at::kDouble)));
  run.set("y", at::ones({2}, at::TensorOptions(at::kDouble)));
  run.run();
  CHECK(run.tensor(clipped[1].id()).isnan().all().item<bool>());
}

TEST_CASE("an optimizer prints what it is") {
  CHECK(Adam{}.attributes() == "lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0");
  const AdamW adamw{.lr = Cosine{.lr = 0.1, .steps = 5}, .clip_norm = 1.0};
  CHECK(adamw.attributes() ==
        "lr=cosine(lr=0.1 steps=5 minimum=0) beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0.01 "
        "clip_norm=1");
  const Sgd sgd{.momentum = 0.9, .nesterov = true};
  CHECK(sgd.attributes() == "lr=0.001 momentum=0.9 dampening=0 weight_decay=0 nesterov");
}

TEST_CASE("an optimizer names what a training cannot use") {
  const auto message = [](const Optimizer& optimizer) {
    Graph g("g");
    const Value w = g.parameter("w", Type{f32, {}}, zeros());
    g.minimize(w * 2.0, optimizer, Line{"train.cc", 7});
    return tests::error_of<GraphError>([&] { g.validate(); });
  };
  CHECK(message(Adam{.lr = -1.0}) ==
        "train.cc:7: adam cannot train the graph\n  requires   a finite learning rate of 0 or "
        "more, but -1");
  CHECK(message(Adam{.beta1 = 1}) ==
        "train.cc:7: adam cannot train the graph\n  requires   a beta1 from 0 to below 1, but 1");
  CHECK(
      message(AdamW{.beta2 = -0.5}) ==
      "train.cc:7: adamw cannot train the graph\n  requires   a beta2 from 0 to below 1, but -0.5");
  CHECK(message(AdamW{.eps = -1e-8}) ==
        "train.cc:7: adamw cannot train the graph\n  requires   a finite eps of 0 or more, but "
        "-1e-08");
  CHECK(message(AdamW{.weight_decay = -1}) ==
        "train.cc:7: adamw cannot train the graph\n  requires   a finite weight_decay of 0 or "
        "more, but -1");
  CHECK(message(Sgd{.momentum = -1}) ==
        "train.cc:7: sgd cannot train the graph\n  requires   a finite momentum of 0 or more, but "
        "-1");
  CHECK(message(Sgd{.nesterov = true}) ==
        "train.cc:7: sgd cannot train the graph\n"
        "  requires   a momentum and no dampening for nesterov, but 0 and 0");
  CHECK(message(Sgd{.clip_norm = 0.0}) ==
        "train.cc:7: sgd cannot train the graph\n  requires   a finite clip_norm above 0, but 0");
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto requires_ = [&](const Optimizer& optimizer) {
    const std::string all = message(optimizer), word = "  requires   ";
    return all.substr(std::min(all.size(), all.find(word) + word.size()));
  };
  CHECK(requires_(Adam{.lr = inf}) == "a finite learning rate of 0 or more, but inf");
  CHECK(requires_(Adam{.beta1 = nan}) == "a beta1 from 0 to below 1, but nan");
  CHECK(requires_(Adam{.beta2 = inf}) == "a beta2 from 0 to below 1, but inf");
  CHECK(requires_(Adam{.eps = inf}) == "a finite eps of 0 or more, but inf");
  CHECK(requires_(AdamW{.weight_decay = nan}) == "a finite weight_decay of 0 or more, but nan");
  CHECK(requires_(Adam{.clip_norm = inf}) ==
        "a finite clip_norm above 0, but inf\n  way out    leave it out, and nothing is clipped");
  CHECK(requires_(Sgd{.clip_norm = nan}) == "a finite clip_norm above 0, but nan");
  CHECK(requires_(Sgd{.momentum = inf}) == "a finite momentum of 0 or more, but inf");
  CHECK(requires_(Sgd{.momentum = 0.9, .dampening = nan}) == "a finite dampening, but nan");
  CHECK(requires_(Sgd{.momentum = nan, .nesterov = true}) ==
        "a finite momentum of 0 or more, but nan");
}

}  // namespace metronome
