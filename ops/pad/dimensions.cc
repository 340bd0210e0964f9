#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/pad/pad.h"

namespace metronome {

std::vector<PaddedDimension> dimensions_of(const Pad& op, const Type& operand) {
  std::vector<PaddedDimension> result{{}};
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    const std::int64_t size = operand.shape[d];
    if (op.low[d] == 0 && op.high[d] == 0) {
      result.back().out *= size, result.back().in *= size, result.back().low *= size;
      continue;
    }
    const PaddedDimension& before = result.back();
    if (before.out == 1 && before.in == 1) result.pop_back();
    result.push_back({size + op.low[d] + op.high[d], size, op.low[d]});
  }
  return result;
}

}  // namespace metronome
