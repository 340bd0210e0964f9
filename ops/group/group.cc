#include "ops/group/group.h"

#include "graph/ir/structural.h"
#include "ops/concat/concat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/expand/expand.h"
#include "ops/slice/slice.h"

namespace metronome {

bool joins_cpu_group(const Op& op) {
  return op.as<Elementwise>() != nullptr || op.as<Accumulate>() != nullptr ||
         op.as<Expand>() != nullptr || op.as<Fill>() != nullptr || op.as<Slice>() != nullptr ||
         op.as<Concat>() != nullptr;
}

}  // namespace metronome
