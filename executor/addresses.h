// From a plan's places to addresses.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "executor/plan.h"

namespace metronome {

/// Where a plan's memory begins, on the host or on a device.
struct Bases {
  std::byte* arena = nullptr;
  std::vector<std::byte*> storages;                          ///< [storage]
  std::function<std::byte*(const std::string& name)> input;  ///< memory of an input
  std::vector<std::byte*> readables;  ///< [readable], null where it is not the first of a block
};

/// The address of a value; null for a saved output that nothing reads.
std::byte* address_of(const Plan& plan, const Bases& bases, ValueId value);

}  // namespace metronome
