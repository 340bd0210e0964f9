#include "benchmarks/gpu_check/control.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "benchmarks/gpu_check/steps.h"

namespace metronome::gpu_check {
namespace {

Value block(Value h) {
  const std::int64_t width = h.type().shape.back();
  return h.also([=](Value v) { return v.through(linear(width)).through(gelu); })
      .through(layer_norm());
}

at::Tensor numbers(SteeredSize size, int salt) {
  const at::Tensor angles =
      at::arange(size.rows * size.width, at::TensorOptions(at::kFloat)) * 1.7 + salt;
  return at::sin(angles).reshape({size.rows, size.width});
}

at::Tensor integer(int n) { return at::full({}, n, at::TensorOptions(at::kInt)); }

/// Microseconds of a step, the loss read: the median.
double measure(Executable& executable, const SteeredModel& model, int rounds, int steps) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    const auto feeds = model.feeds(step, rounds);
    const auto begin = Clock::now();
    executable.run(feeds);
    executable.read_scalar(model.graph.loss());
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  return times[static_cast<std::size_t>(steps) / 2];
}

}  // namespace

SteeredModel::SteeredModel(SteeredSize size)
    : size(size),
      x(graph.input("x", f32, {size.rows, size.width})),
      target(graph.input("target", f32, {size.rows, size.width})),
      rounds(graph.input("rounds", i32, {})),
      which(graph.input("which", i32, {})) {
  const Value none = graph.constant(0, i32);
  const Values looped = loop({x, none}, [](const Values& s) {
                          return Values{block(s[0]), s[1] + 1.0};
                        }).until([this](const Values& s) { return s[1] >= rounds; }, kRounds);
  const Value chosen = looped[0].choose(
      which, {[](Value h) { return h * 2.0; }, block, [](Value h) { return h.repeat(4, block); }});
  const auto router = [](Value h) { return h.through(linear(4)).through(softmax()); };
  const auto expert = [](int) -> Layer { return block; };
  const Value routed = chosen.route(router, expert, {.top = 2});
  graph.output("iterations", iterations(looped[0]));
  graph.minimize(mse_loss(routed, target) + 0.01 * balance_loss(routed), Adam{.lr = 1e-3});
}

std::vector<Feed> SteeredModel::feeds(int step, int rounds_now) const {
  return {{x, numbers(size, step)},
          {target, numbers(size, step + 1000)},
          {rounds, integer(rounds_now)},
          {which, integer(step % 3)}};
}

void regions_are_stepwise(Outcome& outcome, const Placer& place, Conditions conditions, int steps,
                          SteeredSize size) {
  const SteeredModel model(size);
  Executable replay = compile(model.graph, place(cuda_graph({.conditions = conditions})));
  // After replay: it finds replay's choices in the tuning file.
  Executable walk = compile(model.graph, place(stepwise(cuda_device())));
  const Value loss = model.graph.loss();
  for (int step = 0; step < steps; ++step) {
    const int rounds = 1 + 5 * step % SteeredModel::kRounds;
    for (Executable* each : {&replay, &walk}) each->run(model.feeds(step, rounds));
    const double found = replay.read_scalar(loss), expected = walk.read_scalar(loss);
    const int ran = replay.read("iterations").item<int>();
    if (found != expected || ran != rounds) {
      outcome.detail = fmt::format("step {}: losses {:.9g} and {:.9g}, {} rounds of {}", step,
                                   found, expected, ran, rounds);
      return;
    }
  }
  outcome.detail = different_storage(replay, walk);
  outcome.passed = outcome.detail.empty();
  if (!outcome.passed) return;
  outcome.detail =
      fmt::format("{} steps; {}", steps, replay.report().plan(Mode::train).forms.front());
}

void skipping_shows(Outcome& outcome, const Placer& place, int steps, SteeredSize size) {
  const SteeredModel model(size);
  outcome.passed = true;
  outcome.detail = fmt::format("us a step of 1 and of {} rounds:", SteeredModel::kRounds);
  for (const auto& [conditions, name] :
       {std::pair(Conditions::masked, "masked"), std::pair(Conditions::flat, "flat"),
        std::pair(Conditions::nested, "nested")}) {
    Executable replay = compile(model.graph, place(cuda_graph({.conditions = conditions})));
    measure(replay, model, 1, steps);  // warm-up
    const double one = measure(replay, model, 1, steps);
    const double all = measure(replay, model, SteeredModel::kRounds, steps);
    outcome.detail += fmt::format(" {} {:.1f} and {:.1f};", name, one, all);
    if (conditions != Conditions::masked) outcome.passed = outcome.passed && one < all;
  }
  outcome.detail.pop_back();
}

}  // namespace metronome::gpu_check
