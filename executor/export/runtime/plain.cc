// The few functions that kernels ask of the rest of Metronome, where there is no rest: sizes of
// types, and mistakes, which end the program as there are no exceptions.
#include <cstdio>
#include <cstdlib>

#include "graph/ir/type.h"
#include "ops/rules/mistake.h"

namespace metronome {

std::size_t size_of(Element element) {
  switch (element) {
    case f64:
    case i64:
      return 8;
    case f32:
    case i32:
      return 4;
    case bf16:
    case f16:
      return 2;
    case bool_:
      break;
  }
  return 1;
}

std::int64_t normalized_axis(std::int64_t axis, std::int64_t rank) {
  return axis < 0 ? axis + rank : axis;
}

void own_mistake(const char* what) {
  std::fprintf(stderr, "metronome: %s\n", what);
  std::abort();
}

void no_memory() { own_mistake("no memory is left for a kernel"); }

}  // namespace metronome
