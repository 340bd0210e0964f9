// Kinds of reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace metronome {

/// `norm` is the root of the sum of squares. It is made in f64, so that no square of an f32 leaves
/// the range.
enum class ReduceKind : std::uint8_t { sum, mean, max, min, sum_squares, norm };

constexpr std::string_view name_of(ReduceKind kind) {
  constexpr std::string_view kNames[] = {"sum", "mean", "max", "min", "sum_squares", "norm"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace metronome
