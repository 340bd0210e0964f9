// Marks, in mapped memory, of where steps stand in their collectives.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "executor/cuda/program/io_kernels.h"
#include "executor/cuda/program/program.h"
#include "ops/cuda/collective_call.h"
#include "ops/rules/collective_ranks.h"

namespace metronome::executor::program {

/// Returns the collective that a command is, or null.
const CollectiveCommand* collective_of(const Command& command);

/// Mapped memory to which a plan's steps write the number of each collective, before it and behind
/// it; their ranks follow it.
class CollectiveMarks final : public CollectiveProgress {
 public:
  /// Adds the commands that write to `tasks`, which stand in the order of the step. `control` is
  /// the device's, or null: all steps are step 0. The memory is the driver's, which outlives this.
  CollectiveMarks(CudaDriver& driver, const cuda::Control* control, std::span<Task> tasks);
  ~CollectiveMarks() override;
  CollectiveMarks(const CollectiveMarks&) = delete;

  std::optional<CollectivePlace> waits() const override;

 private:
  std::shared_ptr<CollectiveRanks> ranks_;  // null: there is no collective
  std::vector<std::string> names_;          // [collective]
  cuda::StampedNumber* last_ = nullptr;     // as the host sees it
};

}  // namespace metronome::executor::program
