// From a plan's nodes to kernels over memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/engine/addresses.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/table.h"

namespace metronome::executor::cpu {

/// A counter of each storage, which changes when a program has written to it between steps.
class StorageVersions {
 public:
  explicit StorageVersions(std::size_t storages) : versions_(storages) {}
  const std::uint64_t* of(std::size_t storage) const { return &versions_[storage]; }
  void note_change(std::size_t storage) { ++versions_[storage]; }

 private:
  std::vector<std::uint64_t> versions_;
};

/// The memory that kernels of one plan run on.
struct BoundMemory {
  Locator locate;
  const StorageVersions& versions;
  std::vector<std::size_t> storages;  ///< Memory::storages_of the plan's graph
};

/// The kernel of one node over that memory. `scratch` is 64-byte aligned and holds what the chosen
/// candidate asked for.
CpuKernel bind_node(const CpuTable& table, const Plan& plan, std::int32_t node,
                    const BoundMemory& memory, std::byte* scratch, CpuFault fault = {});

}  // namespace metronome::executor::cpu
