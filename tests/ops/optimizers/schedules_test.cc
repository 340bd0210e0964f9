// Learning rates: the numbers of torch.optim.lr_scheduler, on the host and in the graph.
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/optimizers/schedules.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/optimizers/expected_updates.h"

namespace metronome::schedules_test {

namespace {

// The graph's form of a schedule at update t.
double replayed(const LearningRate& schedule, std::int64_t t) {
  Graph g("schedule");
  const Value rate = schedule.at(g.update());
  g.validate();
  CHECK(to_string(rate.type()) == "f64[]");
  Interpreter run(g);
  run.set("update", at::scalar_tensor(t, at::TensorOptions(at::kLong)));
  run.run();
  return run.tensor(rate.id()).item<double>();
}

void check_at(const LearningRate& schedule, std::int64_t t, double expected) {
  INFO(to_string(schedule), " at ", t);
  CHECK(schedule.at(t) == doctest::Approx(expected).epsilon(1e-14));
  CHECK(replayed(schedule, t) == doctest::Approx(expected).epsilon(1e-14));
}

}  // namespace

TEST_CASE("a plateau lowers the rate where torch::optim's does, on the host and in the graph") {
  const Plateau plateau{.lr = 0.8,
                        .factor = 0.5,
                        .patience = 2,
                        .threshold = 0.01,
                        .cooldown = 3,
                        .minimum = 0.0078125,
                        .every = 1};
  const LearningRate schedule = plateau;
  Graph g("plateau");
  const Value loss = g.input("loss", f64, {});
  Values states;
  for (const Moment& state : schedule.states()) {
    states.push_back(g.input(state.name, f64, {}));
  }
  const Values next = schedule.next_states(g.update(), loss, states);
  g.validate();
  Interpreter run(g);
  run.set("update", at::scalar_tensor(0, at::TensorOptions(at::kLong)));
  torch::optim::SGD sgd({at::zeros({1})}, torch::optim::SGDOptions(plateau.lr));
  torch::optim::ReduceLROnPlateauScheduler scheduler(
      sgd, torch::optim::ReduceLROnPlateauScheduler::min, 0.5F, 2, 0.01,
      torch::optim::ReduceLROnPlateauScheduler::rel, 3, {0.0078125F});
  std::vector<double> kept;
  for (const Moment& state : schedule.states()) kept.push_back(state.init.a);
  int falls = 0;
  for (int t = 0; t < 200; ++t) {
    CAPTURE(t);
    const double torch_rate = sgd.param_groups()[0].options().get_lr();
    CHECK(schedule.at(t, kept) == torch_rate);
    // It falls in waves; exact in f32, in which torch's keeps the best one.
    const double metric = std::round(64 * (4 - 0.015 * t + std::sin(0.2 * t))) / 64;
    for (std::size_t i = 0; i < states.size(); ++i) {
      run.set(schedule.states()[i].name, at::scalar_tensor(kept[i], at::kDouble));
    }
    run.set("loss", at::scalar_tensor(metric, at::kDouble));
    run.run();
    kept = schedule.next_states(t, metric, kept);
    for (std::size_t i = 0; i < next.size(); ++i) {
      CHECK(run.tensor(next[i].id()).item<double>() == kept[i]);
    }
    scheduler.step(static_cast<float>(metric));
    falls += torch_rate != sgd.param_groups()[0].options().get_lr();
  }
  CHECK(falls == 7);
}

TEST_CASE("schedules have the rates of PyTorch's, on the host and in the graph") {
  const auto check = [](const std::string& name, const LearningRate& schedule) {
    const std::vector<double>& rates = kExpectedRates.at(name);
    for (std::size_t t = 0; t < rates.size(); ++t) {
      INFO(name, " at ", t);
      const double rate = schedule.at(static_cast<std::int64_t>(t));
      CHECK(std::abs(rate - rates[t]) <= 1e-13);
      CHECK(std::abs(replayed(schedule, static_cast<std::int64_t>(t)) - rates[t]) <= 1e-13);
    }
  };
  check("exponential", ExponentialDecay{.lr = 0.1, .gamma = 0.9});
  check("polynomial", PolynomialDecay{.lr = 0.1, .steps = 25, .power = 2});
  check("multi_step", MultiStepDecay{.lr = 0.1, .milestones = {5, 12, 30}, .gamma = 0.3});
  check("cosine_restarts", CosineRestarts{.lr = 0.1, .steps = 10, .minimum = 0.01});
  check("cosine_restarts_longer",
        CosineRestarts{.lr = 0.1, .steps = 4, .factor = 2, .minimum = 0.01});
  check("one_cycle", OneCycle{.lr = 0.4, .steps = 41});
  check("one_cycle_linear", OneCycle{.lr = 0.4,
                                     .steps = 41,
                                     .rise = 0.25,
                                     .start_divisor = 10,
                                     .end_divisor = 100,
                                     .linear = true});
  check("cyclic", Cyclic{.lr = 0.1, .highest = 0.4, .up = 6, .down = 9});
  check("cyclic_triangular2",
        Cyclic{.lr = 0.1, .highest = 0.4, .up = 5, .down = 5, .halves = true});
  check("cyclic_exponential", Cyclic{.lr = 0.1, .highest = 0.4, .up = 5, .down = 5, .gamma = 0.95});
}

TEST_CASE("restarts begin on time, however often the period has grown") {
  const CosineRestarts schedule{.lr = 1, .steps = 3, .factor = 3};
  std::int64_t begin = 0, length = 3;
  for (int period = 0; period < 18; ++period) {
    CAPTURE(period);
    check_at(schedule, begin, 1);
    CHECK(schedule.at(begin + length - 1) < 0.26);
    begin += length, length *= 3;
  }
}

TEST_CASE("later schedules that cannot be are refused") {
  const auto requires_ = [](const LearningRate& schedule) {
    const auto wrong = schedule.mistake();
    return wrong ? wrong->requires_ : "nothing";
  };
  CHECK(requires_(ExponentialDecay{.gamma = -1}) == "a finite gamma of 0 or more, but -1");
  CHECK(requires_(PolynomialDecay{.steps = 0}) == "steps of 1 or more, but 0");
  CHECK(requires_(MultiStepDecay{.milestones = {5, 5}}) == "milestones that rise, but 5 after 5");
  CHECK(requires_(CosineRestarts{.factor = 0}) == "factor of 1 or more, but 0");
  CHECK(requires_(OneCycle{.rise = 1}) ==
        "2 steps or more, and a rise between 0 and 1 of them, but 1000 and 1");
  CHECK(requires_(Cyclic{.up = 0}) == "up of 1 or more, but 0");
  CHECK(requires_(Cyclic{.lr = 0.1, .highest = 0.01}) == "a highest rate of 0.1 or more, but 0.01");
  CHECK(requires_(Plateau{.every = 0}) == "every of 1 or more, but 0");
  CHECK(to_string(LearningRate(MultiStepDecay{.milestones = {2, 4}})) ==
        "multi_step(lr=0.001 milestones=2,4 gamma=0.1)");
}

TEST_CASE("a rate that keeps states is not asked for without them") {
  const LearningRate schedule = Settable{0.5};
  const std::string text =
      "the learning rate settable(0.5) is asked for without its states\n  requires   lr.at(update, "
      "states), of the states that lr.states() lists, in all members of an optimizer that read it: "
      "scalars, and learning_rate(update, states)";
  CHECK(tests::error_of([&] { schedule.at(0); }) == text);
  Graph g("rate");
  CHECK(tests::error_of([&] { schedule.at(g.update()); }) == text);
}

TEST_CASE("a plateau that begins between looks takes the mean of what it has seen") {
  const LearningRate schedule = Plateau{.lr = 0.1, .factor = 0.5, .patience = 1, .every = 10};
  std::vector<double> kept;
  for (const Moment& state : schedule.states()) kept.push_back(state.init.a);
  for (int t = 37; t < 150; ++t) kept = schedule.next_states(t, 2 - 0.01 * (t - 37), kept);
  CHECK(schedule.at(150, kept) == 0.1);
}

TEST_CASE("a number is a constant rate") {
  const LearningRate schedule = 0.25;
  for (const std::int64_t t : {0, 1, 1000000}) check_at(schedule, t, 0.25);
}

TEST_CASE("a constant rate may begin with a factor of itself") {
  const LearningRate schedule = ConstantRate{.lr = 0.5, .factor = 0.25, .steps = 3};
  for (const std::int64_t t : {0, 1, 2}) check_at(schedule, t, 0.125);
  for (const std::int64_t t : {3, 4, 100}) check_at(schedule, t, 0.5);
}

TEST_CASE("a warm-up is a line that ends at its rate") {
  const LearningRate schedule = LinearWarmup{.lr = 0.2, .steps = 4, .start = 0.5};
  check_at(schedule, 0, 0.1);
  check_at(schedule, 1, 0.125);
  check_at(schedule, 3, 0.175);
  check_at(schedule, 4, 0.2);
  check_at(schedule, 5000, 0.2);
}

TEST_CASE("a cosine falls to its minimum and rises again") {
  const LearningRate schedule = Cosine{.lr = 0.3, .steps = 6, .minimum = 0.1};
  for (std::int64_t t = 0; t < 20; ++t) {
    check_at(schedule, t, 0.1 + 0.2 * (1 + std::cos(std::numbers::pi * t / 6)) / 2);
  }
  check_at(schedule, 0, 0.3);
  check_at(schedule, 6, 0.1);
  check_at(schedule, 12, 0.3);
}

TEST_CASE("steps decay at whole multiples") {
  const LearningRate schedule = StepDecay{.lr = 0.8, .every = 3, .gamma = 0.5};
  for (const std::int64_t t : {0, 1, 2}) check_at(schedule, t, 0.8);
  for (const std::int64_t t : {3, 4, 5}) check_at(schedule, t, 0.4);
  check_at(schedule, 299, 0.8 * std::pow(0.5, 99));
  check_at(schedule, 300, 0.8 * std::pow(0.5, 100));
}

TEST_CASE("schedules follow one another, each from its own beginning") {
  const LearningRate schedule = LearningRate(LinearWarmup{.lr = 0.4, .steps = 4, .start = 0})
                                    .then(4, Cosine{.lr = 0.4, .steps = 8})
                                    .then(12, 0.01);
  check_at(schedule, 0, 0);
  check_at(schedule, 2, 0.2);
  check_at(schedule, 4, 0.4);
  check_at(schedule, 8, 0.2);
  check_at(schedule, 11, 0.2 * (1 + std::cos(std::numbers::pi * 7 / 8)));
  check_at(schedule, 12, 0.01);
  check_at(schedule, 1000, 0.01);
}

TEST_CASE("a schedule prints what it is") {
  CHECK(to_string(LearningRate(0.001)) == "0.001");
  CHECK(to_string(LearningRate(LinearWarmup{.lr = 0.1, .steps = 5, .start = 0})
                      .then(5, Cosine{.lr = 0.1, .steps = 95})) ==
        "linear(lr=0.1 steps=5 start=0 end=1) then at 5 cosine(lr=0.1 steps=95 minimum=0)");
  CHECK(to_string(LearningRate(StepDecay{.lr = 0.1, .every = 30, .gamma = 0.1})) ==
        "step(lr=0.1 every=30 gamma=0.1)");
  CHECK(to_string(LearningRate(ConstantRate{.lr = 0.1, .factor = 0.5, .steps = 5})) ==
        "constant(lr=0.1 factor=0.5 steps=5)");
}

TEST_CASE("a schedule names what a training cannot use") {
  const auto mistake = [](const LearningRate& schedule) {
    const auto found = schedule.mistake();
    return found ? found->requires_ : "nothing";
  };
  CHECK(mistake(1e-3) == "nothing");
  CHECK(mistake(-1.0) == "a finite learning rate of 0 or more, but -1");
  CHECK(mistake(std::nan("")) == "a finite learning rate of 0 or more, but nan");
  constexpr double inf = std::numeric_limits<double>::infinity();
  CHECK(mistake(inf) == "a finite learning rate of 0 or more, but inf");
  CHECK(mistake(ConstantRate{.factor = inf}) == "a finite factor of 0 or more, but inf");
  CHECK(mistake(ConstantRate{.lr = 1e300, .factor = 1e300}) == "a finite factor * lr, but inf");
  CHECK(mistake(LinearWarmup{.end = inf}) == "a finite end of 0 or more, but inf");
  CHECK(mistake(LinearWarmup{.lr = 1e300, .start = 1e300}) == "a finite start * lr, but inf");
  CHECK(mistake(StepDecay{.gamma = inf}) == "a finite gamma of 0 or more, but inf");
  CHECK(mistake(Cosine{.steps = 0}) == "steps of 1 or more, but 0");
  CHECK(mistake(LinearWarmup{.start = -0.5}) == "a finite start of 0 or more, but -0.5");
  CHECK(mistake(StepDecay{.every = -3}) == "every of 1 or more, but -3");
  CHECK(mistake(LearningRate(0.1).then(5, 0.2).then(5, 0.3)) ==
        "milestones that rise, but 5 after 5");
  CHECK(mistake(LearningRate(0.1).then(5, Cosine{.minimum = -1})) ==
        "a finite minimum of 0 or more, but -1");
}

}  // namespace metronome::schedules_test
