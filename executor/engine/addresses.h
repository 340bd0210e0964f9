// From a plan's places to addresses.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "executor/engine/plan.h"
#include "graph/ir/structural.h"

namespace metronome::executor {

/// Returns the address of a value of the plan's graph; null for a saved output that nothing reads.
using Locator = std::function<std::byte*(ValueId)>;

/// The addresses at which a plan's memory begins, on the host or on a device.
struct Bases {
  std::byte* arena = nullptr;
  std::vector<std::byte*> storages;               ///< [StorageId of the plan's graph]
  std::function<std::byte*(const Input&)> input;  ///< memory of an input
  std::vector<std::byte*> readables;  ///< [readable], null if it is not the first of a block
};

/// The address of a value; null for a saved output that nothing reads.
std::byte* address_of(const Plan& plan, const Bases& bases, ValueId value);

}  // namespace metronome::executor
