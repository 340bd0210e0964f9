// The forms in which a step's tasks can be run: captured on one stream or on several, with
// conditional nodes, or enqueued one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "executor/cuda/program/program.h"
#include "executor/cuda/program/regions.h"
#include "executor/cuda/program/streams.h"

namespace metronome::executor::capture {

/// How a step's commands reach the device.
enum class LaunchKind : std::uint8_t {
  one_by_one,
  graph,
  early_graph,  ///< whose kernels begin early (CudaDriver::begin_early)
};

/// A task as one launch of a captured step ran it.
struct TaskRun {
  std::int32_t task = -1;     ///< absent: guards were read, or what a condition skipped was cleared
  double begin = 0, end = 0;  ///< microseconds since the first one began
};

/// Tasks and the streams and events that they run on. Everything is made when it is built.
class StepForm {
 public:
  /// `streams[0]` is the stream that steps are launched on. `nodes` is what each command captures
  /// to, in all tasks together. A failure while capturing is an InternalError or RunError that
  /// names the task. All tasks run, whatever their guards say.
  StepForm(CudaDriver& driver, std::span<const program::Task> tasks, program::StreamPlan plan,
           std::vector<CudaStream> streams, LaunchKind launched, int nodes);

  /// A graph on one stream in which tasks in regions are skipped where their guards are false.
  StepForm(CudaDriver& driver, std::span<const program::Task> tasks,
           const program::RegionParts& regions, CudaStream stream, int nodes);

  /// Enqueues one step.
  void launch() const;
  /// "one graph, 1 stream", "one graph, 3 streams, kernels begin early", "one graph, 9 regions",
  /// "one graph, 9 regions, 3 deep", "uncaptured, 1 stream".
  const std::string& name() const { return name_; }
  /// Whether a step is one launch of a graph.
  bool is_graph() const { return captured_; }
  /// Whether a launch may leave tasks out whose guard is false.
  bool skips() const { return skips_; }
  /// Launches a step and waits: its tasks, by the device's records of the captured step, in the
  /// order in which they began. Nothing where there is no graph, or no record of one: then nothing
  /// was launched.
  std::optional<std::vector<TaskRun>> launch_by_records() const;

 private:
  void capture(int nodes, bool early, const std::function<void()>& play);
  void play() const;
  void play(const program::RegionParts& parts);
  void enqueue(const Command& command, std::int32_t task);

  CudaDriver* driver_;
  std::span<const program::Task> tasks_;
  program::StreamPlan plan_;
  std::vector<CudaStream> streams_;
  bool captured_;
  bool skips_ = false;
  std::string name_;
  CudaEvent start_;
  std::vector<CudaEvent> events_;  ///< [task], where something waits for it
  CudaGraphExec graph_;
  std::vector<std::int32_t> task_of_;  ///< [command of the graph]; -1: of none
};

/// "one graph, 3 streams", "one graph, 1 stream, kernels begin early", "uncaptured, 1 stream".
std::string name_of(const program::StreamPlan& plan, LaunchKind launched);
/// "one graph, 9 regions, 3 deep".
std::string name_of(const program::RegionParts& regions);

/// Returns, for each task, the tasks that it must come after: by the bytes that they touch; and the
/// last after all.
std::vector<std::vector<std::int32_t>> order_of(std::span<const program::Task> tasks);

/// Commands of the longest row of tasks of which each must come after the one before.
int longest_chain(std::span<const program::Task> tasks);

/// Makes each task's commands ready, and says which may be conditional; gives the number of graph
/// nodes that they capture to.
int prepare(CudaDriver& driver, std::span<program::Task> tasks);

/// Runs the tasks one by one, whatever their guards say, and waits for each: an error names the
/// task whose kernels failed.
void run_one_by_one(CudaDriver& driver, std::span<const program::Task> tasks, CudaStream stream);

}  // namespace metronome::executor::capture
