// The pendulum beside its own arithmetic on the host, and what learns to swing it up.
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "models/pendulum/pendulum.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/models/task_run.h"

namespace metronome::pendulum_test {
namespace {

struct Run : tests::TaskRun {
  explicit Run(std::uint64_t seed, std::int64_t epochs = 20, const Target& target = cpu_replay())
      : TaskRun(models::find_task("pendulum")
                    ->make({.epochs = epochs, .batch = 100, .lr = 1e-3, .seed = seed}),
                target, {.seed = seed, .threads = 1}) {}
};

TEST_CASE("a pendulum moves and pays as Gymnasium's does") {
  Graph g("moves");
  const Value angle = g.input("angle", f32, {64, 1}), speed = g.input("speed", f32, {64, 1}),
              torque = g.input("torque", f32, {64, 1});
  const models::Pendulums now{angle, speed}, then = now.pushed(torque);
  g.output("angle_after", then.angle), g.output("speed_after", then.speed);
  g.output("reward", now.reward(torque)), g.output("seen", now.seen());
  Executable step = compile(g, cpu_replay(), tests::plain_options());
  at::manual_seed(3);
  const at::Tensor a = at::rand({64, 1}) * 20 - 10, s = at::rand({64, 1}) * 16 - 8,
                   u = at::rand({64, 1}) * 4 - 2;
  step.run({{angle, a}, {speed, s}, {torque, u}});
  constexpr double kPi = std::numbers::pi;
  for (std::int64_t i = 0; i < 64; ++i) {
    const auto th = a[i].item<double>(), v = s[i].item<double>(), push = u[i].item<double>();
    const double off = std::fmod(std::fmod(th + kPi, 2 * kPi) + 2 * kPi, 2 * kPi) - kPi;
    CHECK(step.read("reward")[i].item<double>() ==
          doctest::Approx(-(off * off + 0.1 * v * v + 0.001 * push * push)).epsilon(1e-4));
    const double faster = std::clamp(v + (15 * std::sin(th) + 3 * push) * 0.05, -8.0, 8.0);
    CHECK(step.read("speed_after")[i].item<double>() == doctest::Approx(faster).epsilon(1e-4));
    CHECK(step.read("angle_after")[i].item<double>() ==
          doctest::Approx(th + faster * 0.05).epsilon(1e-4));
  }
  CHECK(at::allclose(step.read("seen"), at::cat(std::vector<at::Tensor>{a.cos(), a.sin(), s}, 1),
                     1e-5, 1e-5));
}

TEST_CASE("10,000 moves teach it to stand up: a mean return of -200 or more") {
  for (const std::uint64_t seed : {1, 2}) {
    Run run(seed);
    const double before = run.training->test().value;
    run.train_to(20);
    const models::Score score = run.training->test();
    MESSAGE("seed " << seed << ": " << before << ", then " << score.words);
    CHECK(before < -600);
    CHECK(score.value >= -200);
    CHECK(score.words == fmt::format("a mean return of {:.1f} over 100 episodes", score.value));
  }
}

TEST_CASE("episodes begin anew after 200 moves, and the buffer keeps every move") {
  Run run(5);
  run.step.run_many(199);
  CHECK(run.step.get("move").item<std::int64_t>() == 199);
  const at::Tensor before = run.step.get("angle");
  run.step.run();
  CHECK(run.step.get("move").item<std::int64_t>() == 0);
  CHECK(std::abs(run.step.get("angle").item<double>()) <= std::numbers::pi);
  CHECK(std::abs(run.step.get("speed").item<double>()) <= 1);
  CHECK(run.step.get("memory/written").item<std::int64_t>() == 200);
  // A move ends where the next one begins, but at an episode's end.
  const at::Tensor state = run.step.get("memory/state"), next = run.step.get("memory/next");
  CHECK(at::allclose(state.slice(0, 1, 200), next.slice(0, 0, 199), 1e-6, 1e-6));
}

TEST_CASE("replay, stepwise and a run resumed from a checkpoint are one training, bit for bit") {
  const std::string file = fmt::format("{}/pendulum.safetensors", std::getenv("TEST_TMPDIR"));
  Run whole(7, 2), apart(7, 2, stepwise()), resumed(7, 2);
  whole.train_to(1);
  whole.step.save(file);
  whole.training->test();  // plays others' pendulums alone
  whole.train_to(2);
  apart.train_to(2);
  CHECK(apart.loss == whole.loss);
  resumed.step.load(file);
  resumed.train_to(2);
  for (const std::string& path : whole.step.storages()) {
    if (path.starts_with("playing/")) continue;  // where the test left them
    CHECK_MESSAGE(at::equal(whole.step.get(path), resumed.step.get(path)), path);
    CHECK_MESSAGE(at::equal(whole.step.get(path), apart.step.get(path)), path);
  }
}

}  // namespace
}  // namespace metronome::pendulum_test
