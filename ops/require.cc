#include "ops/require.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace metronome {

void require_floating(const Type& type) {
  if (is_floating(type.element)) return;
  throw Requirement{fmt::format("a floating element type, but {}", name_of(type.element)),
                    "cast it: x.cast(mt::f32)"};
}

void require_number(const Type& type) {
  if (type.element != bool_) return;
  throw Requirement{"a number element type, but bool", "cast it: x.cast(mt::f32)"};
}

void require_boolean(const Type& type) {
  if (type.element == bool_) return;
  throw Requirement{fmt::format("the element type bool, but {}", name_of(type.element)),
                    "compare it: mt::not_equal(x, 0)"};
}

void require_integer(const Type& type) {
  if (type.element == i32 || type.element == i64) return;
  throw Requirement{fmt::format("an index of i32 or i64, but {}", name_of(type.element)),
                    "cast it: index.cast(mt::i64)"};
}

void require_equal_elements(std::span<const Type> types) {
  for (const Type& type : types) {
    if (type.element == types[0].element) continue;
    throw Requirement{fmt::format("equal element types, but {} and {}", name_of(types[0].element),
                                  name_of(type.element)),
                      fmt::format("cast one: x.cast(mt::{})",
                                  types[0].element == bool_ ? "bool_" : name_of(types[0].element))};
  }
}

}  // namespace metronome
