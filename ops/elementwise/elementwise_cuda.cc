#include <fmt/format.h>

#include "ops/cuda/map.h"
#include "ops/cuda/source.h"
#include "ops/elementwise/elementwise.h"

namespace metronome {

std::string map_source(const Elementwise& op, const MapSource& source) {
  const FunctionRow& row = row_of(op.function);
  const Element element = source.inputs.back().element;
  std::string call =
      fmt::format("row_{}<{}>({}", row.name, type_text(element), fmt::join(source.operands, ", "));
  if (row.numbers > 0) {
    for (int i = row.operands; i < 3; ++i) call += ", 0";
    call += ", " + number_text(op.a, element);
  }
  if (row.numbers > 1) call += ", " + number_text(op.b, element);
  return call + ")";
}

}  // namespace metronome
