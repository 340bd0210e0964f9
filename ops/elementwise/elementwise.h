// Elementwise functions: one op, one table of rows (ops/elementwise/elementwise_rows.h).
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/expr/function.h"
#include "ops/rules/rules.h"

namespace metronome {

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

/// Adds a node of one row. Operands are values; see ops/expr/functions.h for what takes numbers
/// too.
Value elementwise(Function function, std::initializer_list<Value> operands, Line line = {},
                  double a = 0, double b = 0);

}  // namespace metronome
