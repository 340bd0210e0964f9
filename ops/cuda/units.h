// The unit by which a kernel moves bytes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>

#include "graph/ir/error.h"
#include "graph/ir/type.h"
#include "ops/kernel/index.h"

namespace metronome {

/// The largest of 16, 8, 4, 2 and 1 that divides all of the numbers: bytes and addresses.
inline std::int64_t common_unit(std::initializer_list<std::int64_t> numbers) {
  std::uint64_t bits = 16;
  for (const std::int64_t n : numbers) bits |= static_cast<std::uint64_t>(n);
  return static_cast<std::int64_t>(bits & -bits);
}

inline std::int64_t address(const void* p) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p));
}

/// Calls f with a null pointer of the unit's type.
template <class F>
void with_unit(std::int64_t unit, F f) {
  switch (unit) {
    case 16:
      return f(static_cast<cuda::Unit16*>(nullptr));
    case 8:
      return f(static_cast<cuda::Unit8*>(nullptr));
    case 4:
      return f(static_cast<cuda::Unit4*>(nullptr));
    case 2:
      return f(static_cast<cuda::Unit2*>(nullptr));
    case 1:
      return f(static_cast<cuda::Unit1*>(nullptr));
  }
  throw InternalError(fmt::format("a unit of {} bytes", unit));
}

/// Calls f as `with_unit` does, with a unit as large as an element.
template <class F>
void with_element_unit(Element element, F f) {
  with_unit(static_cast<std::int64_t>(size_of(element)), [&]<class Unit>(Unit* unit) {
    if constexpr (sizeof(Unit) <= 8) f(unit);  // no element is larger
  });
}

}  // namespace metronome
