// The same training through a replay and through libtorch's eager autograd, epochs in turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/commands/device.h"
#include "models/tasks/task.h"

namespace metronome::commands {

/// Trains two fresh executables, one a target, from the checkpoint `resume` if there is one, with
/// the same seed and batches, for all epochs or the first kMostEpochs of them, and prints both.
void compare_with_eager(const models::TrainingTask& task, const DeviceTargets& targets,
                        const CompileOptions& options, const std::optional<std::string>& resume,
                        std::int64_t epochs);

/// Enough for a steady median; more would only make the user wait.
constexpr std::int64_t kMostEpochs = 40;

}  // namespace metronome::commands
