// The table of elementwise functions (ops/elementwise/elementwise_rows.h) as an enum and rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace metronome {

enum class Function : std::uint8_t {
#define METRONOME_ROW(function, ...) function,
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW
};

/// The element types that a row takes, and the type that it gives.
enum class Elements : std::uint8_t {
  floating,  ///< f32, f64; gives the same
  numbers,   ///< f32, f64, i32, i64; gives the same
  compared,  ///< any but bf16 and f16; gives bool
  booleans,  ///< bool; gives bool
  chosen,    ///< a bool, then two of any; gives the latter
};

/// One row of the table.
struct FunctionRow {
  std::string_view name;
  int operands;
  Elements elements;
  int numbers;               ///< attributes it uses: none, a, or a and b
  std::string_view formula;  ///< over x, y, z, a, b
};

inline constexpr FunctionRow kRows[] = {
#define METRONOME_ROW(function, operands, elements, numbers, formula, ...) \
  {#function, operands, Elements::elements, numbers, #formula},
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW
};

constexpr const FunctionRow& row_of(Function function) {
  return kRows[static_cast<std::size_t>(function)];
}

}  // namespace metronome
