// The forms in which a step's tasks can be run: captured on one stream or on several, or enqueued
// one by one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/cuda/driver.h"
#include "executor/cuda/program.h"
#include "executor/cuda/streams.h"

namespace metronome {

/// Tasks and the streams and events that they run on. Everything is made when it is built.
class StepForm {
 public:
  /// conditional: a graph on one stream in which tasks that have a guard are skipped where it is
  /// false; the other forms run them all the same.
  enum class Kind : std::uint8_t { graph, conditional, uncaptured };

  /// `streams[0]` is the stream that steps are launched on. `nodes` is what each command captures
  /// to, in all tasks together. A failure while capturing is an InternalError or RunError that
  /// names the task.
  StepForm(CudaDriver& driver, std::span<const Task> tasks, StreamPlan plan,
           std::vector<CudaStream> streams, Kind kind, int nodes);

  /// Enqueues one step.
  void launch() const;
  /// "one graph, 1 stream", "one graph, 3 streams", "one graph, 9 regions", "uncaptured, 1 stream".
  std::string name() const;
  int streams() const { return plan_.streams; }
  Kind kind() const { return kind_; }

 private:
  void play() const;
  void play_regions() const;

  CudaDriver* driver_;
  std::span<const Task> tasks_;
  StreamPlan plan_;
  std::vector<CudaStream> streams_;
  Kind kind_;
  CudaEvent start_;
  std::vector<CudaEvent> events_;  ///< [task], where something waits for it
  CudaGraphExec graph_;
};

/// Runs of tasks of one guard: what a conditional form makes regions of.
int regions_of(std::span<const Task> tasks);

/// Which tasks must come after which: by the bytes that they touch; and the last after all.
std::vector<std::vector<std::int32_t>> order_of(std::span<const Task> tasks);

/// Makes each task's commands ready; gives the number of graph nodes that they capture to.
int prepare(CudaDriver& driver, std::span<const Task> tasks);

}  // namespace metronome
