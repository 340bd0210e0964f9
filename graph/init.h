// How a storage begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace metronome {

/// The initial value of a storage. Random ones are drawn from a key made of (seed, path), so they
/// do not change when the graph is edited elsewhere. `ops/init.h` has the named initialisers.
struct Init {
  enum class Kind : std::uint8_t { constant, uniform, normal, values };

  Kind kind = Kind::constant;
  double a = 0;                ///< the constant, the lower bound, or the mean
  double b = 0;                ///< the upper bound, or the standard deviation
  std::vector<double> values;  ///< row-major, one per element, for Kind::values

  bool operator==(const Init&) const = default;
};

std::string to_string(const Init& init);

}  // namespace metronome
