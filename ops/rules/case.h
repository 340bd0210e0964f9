// The cases of an op: one table drives conformance, gradient checks and benchmarks.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"

namespace metronome {

/// The numbers that fill an input of a case.
struct Fillings {
  enum class Kind : std::uint8_t {
    uniform,    ///< floating numbers in [low, high)
    integers,   ///< whole numbers in [low, high), for i32, i64 and floating types
    ascending,  ///< the same in order, for i32 and i64
    booleans,
  };
  Kind kind = Kind::uniform;
  double low = -2;
  double high = 2;
  bool differentiable = true;  ///< false: no gradient is checked for this input
};

struct CaseInput {
  Type type;  ///< f32 stands for "the floating type under test"; f64 stays f64 in both
  Fillings fill = {};
};

/// Booleans, or whole numbers from 0 to below `high`, through which no gradient flows.
inline Fillings whole_fill(Element element, double high = 2) {
  return {.kind = element == bool_ ? Fillings::Kind::booleans : Fillings::Kind::integers,
          .low = 0,
          .high = high,
          .differentiable = false};
}

/// Whole numbers from 0 to below `size`, through which no gradient flows.
inline CaseInput indices(Shape shape, std::int64_t size, Element element = i64) {
  return {{element, std::move(shape)}, whole_fill(element, static_cast<double>(size))};
}

/// One use of an op. Conformance runs it in f32 and in f64 (`CaseInput::type` f32 becomes f64).
struct Case {
  std::string name;  ///< "odd sizes"
  OpPtr op;
  std::vector<CaseInput> inputs;
  /// True where a sum is involved: the looser row of the tolerance table.
  bool sums = false;
  /// False where values are compared but gradients are not (the op has none, or is not smooth
  /// here).
  bool gradient = true;
};

}  // namespace metronome
