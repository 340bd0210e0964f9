// The CPU as a back end: the replay, and the same kernels one by one.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "executor/engine/backend.h"
#include "executor/options/target.h"

namespace metronome::executor::cpu {

/// `Target::open` of `cpu_replay` and of `stepwise`. Throw RunError where METRONOME_KERNELS names
/// no family.
std::unique_ptr<Backend> open_cpu_replay(const Target& target, const CompileOptions& options,
                                         const std::string& graph);
std::unique_ptr<Backend> open_stepwise(const Target& target, const CompileOptions& options,
                                       const std::string& graph);

/// Returns the settings of passes and planner for a plan on the CPU.
Settings cpu_settings(Mode mode);
/// Returns the memory that plans over one arena take, with their biggest values.
Needs needs_of_arena(std::span<const Plan> plans);

}  // namespace metronome::executor::cpu
