// Trains the model by replay, beside libtorch's eager steps from the same weights over the same
// points. Ends with status 1 where it does not learn, or the two do not agree.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>

#include "model.h"

namespace {

using namespace example;

constexpr std::int64_t kSteps = 600, kSaidEvery = 100;
// Steps taken by both: rounding alone parts them, and training lets that grow.
constexpr std::int64_t kBeside = 20;
constexpr double kTolerance = 1e-4;  // of a loss, relative
constexpr double kEnough = 0.9;      // of the points right at the end; guessing gives 0.25

/// One step, in microseconds.
double step_of(mt::Executable& step, const Model& model, std::int64_t index) {
  const Batch batch = batch_of(index);
  const auto begin = std::chrono::steady_clock::now();
  step.run({{model.x, mt::from_span(batch.x, {kRows, kWidth})},
            {model.target, mt::from_span(batch.target, {kRows})}});
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

/// The largest difference of a loss in the first steps; prints where both stand after them.
double train_beside_eager(const Model& model, mt::Executable& replay) {
  mt::Executable eager = mt::compile(model.graph, mt::eager());
  double largest = 0, replay_us = 0, eager_us = 0;
  for (std::int64_t i = 0; i < kBeside; ++i) {
    replay_us = step_of(replay, model, i);
    eager_us = step_of(eager, model, i);
    const double loss = replay.read_scalar(model.graph.loss());
    const double wanted = eager.read_scalar(model.graph.loss());
    largest = std::max(largest, std::abs(loss - wanted) / std::abs(wanted));
  }
  fmt::print("step {:>4}  {:.0f} us replayed, {:.0f} us eager; losses differ by at most {:.1e}\n",
             kBeside, replay_us, eager_us, largest);
  return largest;
}

int run() {
  const Model model = make_model();
  mt::Executable step = mt::compile(model.graph);
  const mt::PlanReport& plan = step.report().plan(mt::train);
  fmt::print("{}: {} parameters; {} kernels a step, of {} declared; {:.0f} KiB of arena\n",
             model.graph.name(), step.report().parameter_count, plan.kernels, plan.kernels_declared,
             plan.arena_bytes / 1024.0);

  const double difference = train_beside_eager(model, step);
  double right = 0;  // of the last kSaidEvery batches
  for (std::int64_t i = kBeside; i < kSteps; ++i) {
    step_of(step, model, i);
    if (i >= kSteps - kSaidEvery) right += step.read_scalar(model.accuracy) / kSaidEvery;
    if ((i + 1) % kSaidEvery != 0) continue;
    fmt::print("step {:>4}  loss {:.4f}  accuracy {:.2f}\n", i + 1,
               step.read_scalar(model.graph.loss()), step.read_scalar(model.accuracy));
  }

  if (!(difference <= kTolerance)) {
    fmt::print(stderr,
               "train: losses of replay and eager differ by {:.1e}, at most {:.1e} is rounding\n",
               difference, kTolerance);
    return 1;
  }
  if (!(right >= kEnough)) {
    fmt::print(stderr,
               "train: of the last {} steps {:.2f} of the points are right, fewer than {}\n",
               kSaidEvery, right, kEnough);
    return 1;
  }
  fmt::print("learned: {:.1f} % of the last {} steps' points are right\n", 100 * right, kSaidEvery);
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "train: {}\n", error.what());
    return 1;
  }
}
