#include "ops/reference/elements.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome {

c10::ScalarType to_torch(Element element) {
  switch (element) {
    case f32:
      return c10::kFloat;
    case f64:
      return c10::kDouble;
    case i32:
      return c10::kInt;
    case i64:
      return c10::kLong;
    case bool_:
      return c10::kBool;
    case bf16:
      return c10::kBFloat16;
    case f16:
      return c10::kHalf;
  }
  throw InternalError("an element type out of range");
}

Element from_torch(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
      return f32;
    case c10::kDouble:
      return f64;
    case c10::kInt:
      return i32;
    case c10::kLong:
      return i64;
    case c10::kBool:
      return bool_;
    case c10::kBFloat16:
      return bf16;
    case c10::kHalf:
      return f16;
    default:
      throw RunError(
          fmt::format("a tensor of {}: element types are f32, f64, i32, i64, bool, bf16 and f16",
                      c10::toString(type)));
  }
}

}  // namespace metronome
