// Runs of bytes copied between two layouts.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace metronome::METRONOME_ISA {

/// So many runs of `bytes` each; steps are from run to run, in bytes.
struct Runs {
  char* to = nullptr;
  const char* from = nullptr;
  std::int64_t to_step = 0;
  std::int64_t from_step = 0;
  std::int64_t bytes = 0;
};

template <class T>
inline void copy_elements(const Runs& runs, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    T element;
    std::memcpy(&element, runs.from + r * runs.from_step, sizeof(T));
    std::memcpy(runs.to + r * runs.to_step, &element, sizeof(T));
  }
}

/// Copies runs [begin, end). Runs of few bytes take no call each.
inline void copy_runs(const Runs& runs, std::int64_t begin, std::int64_t end) {
  using Words = std::uint64_t;
  switch (runs.bytes) {
    case 2:
      return copy_elements<std::uint16_t>(runs, begin, end);
    case 4:
      return copy_elements<std::uint32_t>(runs, begin, end);
    case 8:
      return copy_elements<std::uint64_t>(runs, begin, end);
    case 16:
      return copy_elements<std::array<Words, 2>>(runs, begin, end);
    case 32:
      return copy_elements<std::array<Words, 4>>(runs, begin, end);
    case 64:
      return copy_elements<std::array<Words, 8>>(runs, begin, end);
    default:
      break;
  }
  for (std::int64_t r = begin; r < end; ++r) {
    std::memcpy(runs.to + r * runs.to_step, runs.from + r * runs.from_step,
                static_cast<std::size_t>(runs.bytes));
  }
}

/// Runs that a thread takes at least.
inline std::int64_t run_grain(std::int64_t bytes) {
  return bytes >= 16384 ? 1 : 16384 / (bytes + 1) + 1;
}

}  // namespace metronome::METRONOME_ISA
