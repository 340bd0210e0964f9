// The one place that makes a C++ type of an element type, or of its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "graph/ir/half.h"
#include "graph/ir/type.h"
#include "ops/rules/mistake.h"

namespace metronome {

/// True for the types of elements of two bytes, which convert to float and from it.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// f(T()) with the element's type. One that is not listed here is a warning of the compiler, and an
/// InternalError.
template <class F>
auto with_element(Element element, F f) {
  switch (element) {
    case f32:
      return f(float());
    case f64:
      return f(double());
    case i32:
      return f(std::int32_t());
    case i64:
      return f(std::int64_t());
    case bool_:
      return f(bool());
    case bf16:
      return f(BFloat16());
    case f16:
      return f(Float16());
  }
  own_mistake("an element type out of range");
}

/// f(T()) with float or double, for what computes in these alone. Throws InternalError for others.
template <class F>
auto with_floating(Element element, F f) {
  switch (element) {
    case f32:
      return f(float());
    case f64:
      return f(double());
    case i32:
    case i64:
    case bool_:
    case bf16:
    case f16:
      break;
  }
  own_mistake("a kernel of f32 and f64 is asked for another type");
}

/// f(T()) with an unsigned type of that many bytes, for what moves elements and reads none. Throws
/// InternalError for a size that no element has.
template <class F>
auto with_size(std::size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t());
    case 2:
      return f(std::uint16_t());
    case 4:
      return f(std::uint32_t());
    case 8:
      return f(std::uint64_t());
  }
  own_mistake("elements of a size that no type has");
}

}  // namespace metronome
