// Tasks that `./metronome train` trains: a model, its real data, and a score on held-out data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/metronome.h"

namespace metronome::models {

/// How well a model does on data that it never trained on.
struct Score {
  double value = 0;   ///< the share of right answers, bits a byte, or a mean return
  std::string brief;  ///< for a line of progress: "accuracy  99.2 %"
  std::string words;  ///< "99.17 % right (357 of 360)"
};

/// One executable's training run. Its feeds depend on the seed and the executable's replay counter
/// alone, so that a run resumed from a checkpoint goes on exactly where it stopped.
class Training {
 public:
  Training(Executable& step, std::int64_t steps_per_epoch)
      : step_(step), steps_per_epoch_(steps_per_epoch) {}
  virtual ~Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Throws RunError where the executable was resumed in the middle of an epoch.
  std::int64_t epochs_done() const;

  /// One epoch; `after_step` is given each step's loss.
  virtual void epoch(const std::function<void(double loss)>& after_step) = 0;
  /// The evaluation plan over all that is held out.
  virtual Score test() = 0;
  /// Returns text that the model makes by itself, to be printed; empty if it makes none.
  virtual std::string sample() { return ""; }

 protected:
  Executable& step() const { return step_; }

 private:
  Executable& step_;
  std::int64_t steps_per_epoch_;
};

/// The part of a training that this process does, if several ranks share it out.
struct Share {
  int rank = 0;
  int ranks = 1;
  /// Whether each epoch leaves out what is no whole batch: any number of ranks then makes the same
  /// steps.
  bool whole_batches = false;
  /// The sum of what each of them gives, on all of them.
  std::function<double(double)> sum = [](double own) { return own; };
};

struct TaskOptions {
  std::int64_t epochs = 1;
  std::int64_t batch = 1;  ///< rows of a step, of all ranks
  double lr = 1e-3;  ///< at the first step; it falls to 0 along a cosine, the pendulum's stays
  std::uint64_t seed = 0;  ///< of the split and of what each step is fed
  Share share = {};

  /// Rows of this rank's step: all ranks have as many, and rank r the r-th part of a step's rows.
  /// Throws RunError for a batch that they cannot share out evenly.
  std::int64_t batch_of_rank() const;
};

/// Data and models, ready to be compiled. A training refers to its task.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  /// "1437 digits to train on, 360 to test with".
  virtual std::string parts() const = 0;
  /// Returns the graphs to compile together; those that name no modes train and evaluate.
  virtual std::vector<GraphFor> graphs() const = 0;
  /// The loss, which each of the graphs that train has.
  virtual Value loss() const = 0;
  /// The names of numbers that its updates make anyway and that can be read
  /// (`Graph::learning_rate`, `Graph::gradient_norm` where it clips).
  virtual std::vector<std::string_view> update_numbers() const { return {"learning_rate"}; }
  virtual std::unique_ptr<Training> training(Executable& step) const = 0;
};

/// A model by itself, to be planned: its graph, and what it is fed.
struct DeclaredTask {
  Graph graph;
  Values inputs;
};

/// A task by its name.
struct TaskEntry {
  std::string_view name;
  std::string_view about;
  std::int64_t epochs;
  std::int64_t batch;
  double lr;
  int threads;  ///< 0: all cores
  /// Reads the data. Throws RunError with the file and what is wrong with it.
  std::unique_ptr<TrainingTask> (*make)(const TaskOptions& options);
  DeclaredTask (*declare)(const TaskOptions& options);

  TaskOptions defaults() const { return {.epochs = epochs, .batch = batch, .lr = lr}; }
};

/// All of them, in the order in which they are listed.
std::span<const TaskEntry> all_tasks();
/// The task of that name, or null.
const TaskEntry* find_task(std::string_view name);

/// Returns the path that a variable of the environment names. `what` ("the digits") and `found`
/// ("their CSV file") are words for the error: throws RunError if the variable is not set, or
/// empty: ./metronome leaves it so if it could not fetch the data.
std::string data_path(std::string_view variable, std::string_view what, std::string_view found);

}  // namespace metronome::models
