// Sizes that a program leaves open, as expressions of symbols.
//
//   "sizes": [{"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s77', integer=True))",
//                          "hint": {"as_int": 6}}}, {"as_int": 4}]
//
// With the value 3 of s77 this becomes [{"as_int": 6}, {"as_int": 4}]: the rest of the reader sees
// numbers alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "executor/import/file/exported.h"

namespace metronome::pt2 {

/// The number that an expression is. Throws ImportRefusal for one that is not whole, that has an
/// unknown function, or a symbol without a value.
std::int64_t evaluate_size(std::string_view expression, const SymbolValues& symbols);

/// An expression without SymPy's names of its own: "Mul(2, s77)".
std::string readable_size(std::string expression);

/// The symbols of a graph with the sizes of the export's example. A symbol without an example, as
/// a size that depends on numbers, is left out.
SymbolValues example_sizes(const Json& graph);

/// The graph with numbers in place of expressions whose symbols have values, and of their names.
Json with_numbers(Json graph, const SymbolValues& symbols);

}  // namespace metronome::pt2
