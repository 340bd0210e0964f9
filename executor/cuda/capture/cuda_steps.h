// `stepwise` on a device: the plan's kernels one by one, each value in memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/cuda/capture/captured.h"
#include "executor/cuda/program/collective_marks.h"
#include "executor/cuda/program/device_faults.h"
#include "executor/cuda/program/device_state.h"
#include "executor/engine/engine.h"
#include "executor/engine/observer.h"
#include "executor/options/target.h"
#include "ops/cuda/table.h"

namespace metronome::executor::capture {

/// One plan. Every value keeps memory of its own at the same address modulo 256 as in the plan, so
/// no plan can be wrong here; assignments are copied at the end of the step.
class CudaSteps {
 public:
  /// Kernels are those of `table`, which is not kept. Faults are reported to `faults`, where the
  /// plan's order begins at place `base`; null: they are not.
  CudaSteps(CudaDriver& driver, CudaStream stream, const Plan& plan,
            const program::DeviceState& state, const CudaTable& table, bool tf32,
            const program::DeviceFaults* faults = nullptr, std::size_t base = 0);

  /// One step; returns when it is made. `observer`, or null, is shown each node with what it reads
  /// and makes in host memory; what it writes there goes back to the device.
  void run(Observer* observer = nullptr) const;
  /// One step, whose collectives are captured, each in a graph of its own. Returns what
  /// `CapturedCollectives::failure` tells of them.
  std::string run_with_captured_collectives() const;
  bool has_collectives() const;
  std::byte* readable(std::size_t index) const;

 private:
  void enqueue(const program::Task& task) const;
  bool skips(const Node& node) const;
  void show(std::size_t task, Observer& observer) const;
  std::byte* address(ValueId value) const;

  CudaDriver& driver_;
  CudaStream stream_;
  const Plan& plan_;
  Bases bases_;
  program::DeviceConstants constants_;
  program::DeviceBlock values_;
  std::vector<std::vector<std::byte*>> places_;  ///< [node][output]; null for what has no memory
  std::vector<program::Task> tasks_;
  std::vector<std::int32_t> nodes_;  ///< [task] below zero: an assignment
  std::optional<program::CollectiveMarks> marks_;
};

/// The engine of `stepwise` on a device. `observer`: CompileOptions::observer.
std::unique_ptr<Engine> make_cuda_stepwise(std::vector<Plan> plans, const Memory& memory,
                                           std::shared_ptr<CudaDriver> driver,
                                           const CudaTable& table, const CudaOptions& options,
                                           bool watches, std::shared_ptr<Observer> observer);

}  // namespace metronome::executor::capture
