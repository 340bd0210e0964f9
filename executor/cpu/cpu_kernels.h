// The CPU's kernels, as far as the choice of kernels asks about them.
#pragma once

#include <memory>
#include <optional>

#include "executor/engine/kernels.h"
#include "executor/options/target.h"
#include "executor/support/free_memory.h"
#include "ops/rules/candidate.h"
#include "ops/rules/own_rules.h"

namespace metronome::executor::cpu {

/// Whose kernels run wherever they can: the family's; of `usual` the one that METRONOME_KERNELS
/// names; absent where that is not set. Throws RunError where it names no family.
std::optional<Maker> maker_of(Family family);

struct KernelOptions {
  int threads = 1;                             ///< at most, a kernel
  std::optional<Maker> preferred = {};         ///< Kernels::preferred
  std::optional<FreeMemory> free_memory = {};  ///< Kernels::free_memory
  bool run = true;                             ///< Kernels::run
  OwnOps ops = {};                             ///< beside those of the table
};
std::unique_ptr<Kernels> cpu_kernels(KernelOptions options);

}  // namespace metronome::executor::cpu
