// Elementwise functions: one op, one table of rows (ops/elementwise/elementwise_rows.h).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

enum class Function : std::uint8_t {
#define METRONOME_ROW(function, ...) function,
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW
};

/// Which element types a row takes, and what it gives.
enum class Elements : std::uint8_t {
  floating,  ///< f32, f64; gives the same
  numbers,   ///< f32, f64, i32, i64; gives the same
  compared,  ///< any but bf16 and f16; gives bool
  booleans,  ///< bool; gives bool
  chosen,    ///< a bool, then two of any; gives the latter
};

/// One row of the table.
struct Row {
  std::string_view name;
  int operands;
  Elements elements;
  int numbers;               ///< attributes it uses: none, a, or a and b
  std::string_view formula;  ///< over x, y, z, a, b
};

inline constexpr Row kRows[] = {
#define METRONOME_ROW(function, operands, elements, numbers, formula, ...) \
  {#function, operands, Elements::elements, numbers, #formula},
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW
};

constexpr const Row& row_of(Function function) { return kRows[static_cast<std::size_t>(function)]; }

/// A row's function of each element of its operands, which are broadcast as in NumPy. No implicit
/// promotion: operands have one element type (but for the condition of `where`).
struct Elementwise {
  Function function = Function::add;
  double a = 0;  ///< clamp: the lower bound; pow_scalar: the exponent
  double b = 0;  ///< clamp: the upper bound
  std::string_view name = row_of(function).name;

  bool operator==(const Elementwise&) const = default;
  bool halves() const { return function == Function::where; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const;
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
  /// x + 0, x - 0, x * 1, x / 1, -(-x), x^1, x^2; broadcasts of operands that come by themselves.
  Value fold(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Elementwise);
METRONOME_MAP(Elementwise);

/// Adds a node of one row. Operands are values; see ops/language/functions.h for what takes numbers
/// too.
Value elementwise(Function function, std::initializer_list<Value> operands, Line line = {},
                  double a = 0, double b = 0);

/// f(x), of elements of two bytes by way of f32: a sum is rounded once.
Value in_f32(Value x, const std::function<Value(Value)>& f);

/// The gradient `g` of a broadcast result, summed to the shape of the operand it belongs to.
Value summed_to(Value g, const Shape& shape);

}  // namespace metronome
