// The tasks of a plan's step, each timed alone, before the step.
#pragma once

#include <span>
#include <vector>

#include "executor/cuda/driver/stopwatch.h"
#include "executor/cuda/program/step_io.h"
#include "executor/engine/profile.h"

namespace metronome::executor::capture {

/// Each task runs hundreds of times over the step's own memory, on what the tasks before it left
/// there; one that changes what it reads finds it changed, but those behind it do not. Then
/// storages and what was met are put back: the step that follows is as it would have been.
class StepTimes {
 public:
  /// `tasks`, which outlive it, are the plan's whole step: what loads its inputs, what computes,
  /// what stores its numbers (`reads`, of a control block of its own, is timed in place of that
  /// one, which counts steps).
  StepTimes(const Stopwatch& watch, program::DeviceState& state, program::DeviceFaults& faults,
            std::span<const program::Task> tasks, const program::Task& reads);
  StepTimes(const StepTimes&) = delete;

  /// Returns the time of each task, in their order; the inputs of the step must have been sent.
  std::vector<KernelTime> measure();

 private:
  double microseconds(std::size_t task);

  Stopwatch watch_;
  program::DeviceState& state_;
  program::DeviceFaults& faults_;
  std::vector<const program::Task*> tasks_;
  std::vector<RepeatedCommands>
      runs_;  ///< [task]; made by the first `measure`, as they run what they time
};

}  // namespace metronome::executor::capture
