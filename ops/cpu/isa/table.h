#pragma once

#include <typeindex>
#include <utility>
#include <vector>

#include "ops/cpu/table.h"

namespace metronome {

// One for each instruction set that kernels are compiled for.
namespace avx2 {
std::vector<std::pair<std::type_index, CpuTable::Rules>> cpu_rules();
}
namespace avx512 {
std::vector<std::pair<std::type_index, CpuTable::Rules>> cpu_rules();
}

}  // namespace metronome
