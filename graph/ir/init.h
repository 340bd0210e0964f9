// How a storage begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/type.h"

namespace metronome {

/// Numbers that a storage begins with, row-major, in memory that copies share.
class InitialNumbers {
 public:
  InitialNumbers() = default;
  InitialNumbers(const std::vector<double>& numbers);  // NOLINT: values({1, 2})
  InitialNumbers(std::initializer_list<double> numbers)
      : InitialNumbers(std::vector<double>(numbers)) {}
  /// Dense bytes of elements of this type.
  InitialNumbers(Element element, std::vector<std::byte> bytes);

  std::size_t size() const;
  double operator[](std::size_t i) const;
  /// Their bytes if they are of this element type, else null.
  const std::byte* bytes_of(Element element) const;
  /// Whether all numbers are equal, whatever their element types; a NaN equals nothing.
  bool operator==(const InitialNumbers& other) const;

 private:
  Element element_ = Element::f64;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

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
  double a = 0;           ///< the constant, the lower bound, the mean, or the gain
  double b = 0;           ///< the upper bound, or the standard deviation
  InitialNumbers values;  ///< one per element, for Kind::values
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
