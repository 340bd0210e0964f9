// The one place that makes a C++ type of an element type, or of its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "graph/ir/half.h"
#include "graph/ir/type.h"
#include "ops/rules/kept.h"
#include "ops/rules/mistake.h"

namespace metronome {

/// True for the types of elements of two bytes, which convert to float and from it.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// f(T()) with the element's type, in a kernel of `Op`. One that is not listed here is a warning of
/// the compiler, and an InternalError.
template <class Op = void, class F>
auto with_element(Element element, F f) {
  switch (element) {
    case f32:
      if constexpr (keeps<Op>(f32)) return f(float());
      break;
    case f64:
      if constexpr (keeps<Op>(f64)) return f(double());
      break;
    case i32:
      if constexpr (keeps<Op>(i32)) return f(std::int32_t());
      break;
    case i64:
      if constexpr (keeps<Op>(i64)) return f(std::int64_t());
      break;
    case bool_:
      if constexpr (keeps<Op>(bool_)) return f(bool());
      break;
    case bf16:
      if constexpr (keeps<Op>(bf16)) return f(BFloat16());
      break;
    case f16:
      if constexpr (keeps<Op>(f16)) return f(Float16());
      break;
  }
  own_mistake("an element type out of range");
}

/// f(T()) with float or double, for what computes in these alone. Throws InternalError for others.
template <class Op = void, class F>
auto with_floating(Element element, F f) {
  switch (element) {
    case f32:
      if constexpr (keeps<Op>(f32)) return f(float());
      break;
    case f64:
      if constexpr (keeps<Op>(f64)) return f(double());
      break;
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
template <class Op = void, class F>
auto with_size(std::size_t bytes, F f) {
  switch (bytes) {
    case 1:
      if constexpr (keeps<Op>(bool_)) return f(std::uint8_t());
      break;
    case 2:
      if constexpr (keeps<Op>(bf16) || keeps<Op>(f16)) return f(std::uint16_t());
      break;
    case 4:
      if constexpr (keeps<Op>(f32) || keeps<Op>(i32)) return f(std::uint32_t());
      break;
    case 8:
      if constexpr (keeps<Op>(f64) || keeps<Op>(i64)) return f(std::uint64_t());
      break;
  }
  own_mistake("elements of a size that no type has");
}

}  // namespace metronome
