// Kinds of reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace metronome {

enum class ReduceKind : std::uint8_t { sum, mean, max, min, sum_squares };

constexpr std::string_view name_of(ReduceKind kind) {
  constexpr std::string_view kNames[] = {"sum", "mean", "max", "min", "sum_squares"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace metronome
