#include <fmt/format.h>

#include "ops/cuda/map.h"
#include "ops/cuda/source.h"
#include "ops/dropout/dropout.h"

namespace metronome {

std::string map_source(const Dropout& op, const MapSource& source) {
  const Element element = source.output.element;
  return fmt::format(
      "drop<{}>({}, {}, {}, {}, {}, {}, {})", type_text(element), source.operands[0],
      source.operands[1], source.key,
      op.first == 0 ? source.index : fmt::format("({} + {}ull)", source.index, op.first),
      source.operands[2], number_text(op.p, f32), number_text(op.scale(), element));
}

}  // namespace metronome
