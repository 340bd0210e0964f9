// How a storage begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/type.h"

namespace metronome {

/// The initial value of a storage. Random ones are drawn from a key made of (seed, path), so they
/// do not change when the graph is edited elsewhere. `ops/language/init.h` has the named
/// initialisers.
struct Init {
  enum class Kind : std::uint8_t {
    constant,
    uniform,
    normal,
    values,
    truncated_normal,
    orthogonal
  };

  Kind kind = Kind::constant;
  double a = 0;                ///< the constant, the lower bound, the mean, or the gain
  double b = 0;                ///< the upper bound, or the standard deviation
  std::vector<double> values;  ///< row-major, one per element, for Kind::values
  /// The requirement that the named initialiser's arguments do not meet ("a fan_in of 1 or more for
  /// kaiming_uniform, but 0"), or nothing. No storage can be made with such an `Init`.
  std::string wrong = "";
  double low = 0, high = 0;  ///< bounds of a truncated normal

  bool operator==(const Init&) const = default;
};

std::string to_string(const Init& init);

/// Returns the requirement that `init` does not meet for a storage of `type`, or nothing: bounds in
/// order and finite, one value for each element, numbers that the element type can hold. Only
/// constants and values of storages that are not trained may be infinite: a running minimum begins
/// as one.
std::optional<Requirement> wrong_init(const Init& init, const Type& type, bool trained);

}  // namespace metronome
