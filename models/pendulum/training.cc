// An epoch is 500 moves of the one pendulum that learns. A test plays an episode of 200 moves in
// each of 100 others, which begin anywhere.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/pendulum/pendulum.h"

namespace metronome::models {
namespace {

constexpr std::int64_t kMovesAnEpoch = 500, kEpisodes = 100, kMovesAnEpisode = 200;

PendulumOptions options_of(const TaskOptions& options) {
  return {.batch = options.batch_of_rank(), .lr = options.lr};
}

class PendulumTask : public TrainingTask {
 public:
  explicit PendulumTask(const TaskOptions& options)
      : learning_(learning_pendulum(options_of(options))), playing_(playing_pendulums(kEpisodes)) {}

  std::string parts() const override {
    return fmt::format("a pendulum to learn from, {} others to play with", kEpisodes);
  }
  std::vector<GraphFor> graphs() const override {
    return {{&learning_, {train}}, {&playing_.graph, {advance}}};
  }
  Value loss() const override { return learning_.loss(); }
  std::vector<std::string_view> update_numbers() const override { return {}; }
  std::unique_ptr<Training> training(Executable& step) const override;

  const PlayingPendulums& playing() const { return playing_; }

 private:
  Graph learning_;
  PlayingPendulums playing_;
};

class PendulumTraining : public Training {
 public:
  PendulumTraining(const PendulumTask& task, Executable& step)
      : Training(step, kMovesAnEpoch), task_(task) {}

  void epoch(const std::function<void(double loss)>& after_step) override {
    for (std::int64_t move = 0; move < kMovesAnEpoch; ++move) {
      step().run();
      after_step(step().read_scalar(task_.loss()));
    }
  }

  Score test() override {
    step().reset("playing");
    double sum = 0;
    for (std::int64_t move = 0; move < kMovesAnEpisode; ++move) {
      step().evaluate({}, {.states = States::advance});
      sum += step().read_scalar(task_.playing().reward);
    }
    return {sum, fmt::format("return {:.1f}", sum),
            fmt::format("a mean return of {:.1f} over {} episodes", sum, kEpisodes)};
  }

 private:
  const PendulumTask& task_;
};

std::unique_ptr<Training> PendulumTask::training(Executable& step) const {
  return std::make_unique<PendulumTraining>(*this, step);
}

}  // namespace

std::unique_ptr<TrainingTask> make_pendulum(const TaskOptions& options) {
  return std::make_unique<PendulumTask>(options);
}

DeclaredTask declare_pendulum(const TaskOptions& options) {
  return {learning_pendulum(options_of(options)), {}};
}

}  // namespace metronome::models
