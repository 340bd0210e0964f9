#include <fmt/format.h>

#include "ops/cast/cast.h"
#include "ops/cuda/map.h"
#include "ops/cuda/source.h"

namespace metronome {

std::string map_source(const Cast& op, const MapSource& source) {
  return fmt::format("static_cast<{}>({})", type_text(op.element), source.operands[0]);
}

}  // namespace metronome
