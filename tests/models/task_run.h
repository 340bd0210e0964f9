// Trainings of tasks, for tests that compare them bit by bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "executor/metronome.h"
#include "models/tasks/task.h"
#include "tests/aten.h"

namespace metronome::tests {

/// A task, an executable of it and its training.
struct TaskRun {
  TaskRun(std::unique_ptr<models::TrainingTask> made, const Target& target,
          const CompileOptions& options)
      : task(std::move(made)),
        step(compile(task->graphs(), target, options)),
        training(task->training(step)) {}

  void train_to(std::int64_t epoch) {
    while (training->epochs_done() < epoch) training->epoch([&](double l) { loss = l; });
  }

  std::unique_ptr<models::TrainingTask> task;
  Executable step;
  std::unique_ptr<models::Training> training;
  double loss = 0;
};

/// The first storage that differs in any bit, "loss", or "".
inline std::string difference(const TaskRun& a, const TaskRun& b) {
  for (const std::string& path : a.step.storages()) {
    if (!at::equal(a.step.get(path), b.step.get(path))) return path;
  }
  return a.loss == b.loss ? "" : "loss";
}

}  // namespace metronome::tests
