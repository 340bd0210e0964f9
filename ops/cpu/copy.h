// Runs of bytes copied between two layouts.
#pragma once

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

/// A few bytes, a multiple of 16, inline.
inline void copy_short(char* to, const char* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 16) std::memcpy(to + i, from + i, 16);
}

/// Copies runs [begin, end). Short runs take no call each.
inline void copy_runs(const Runs& runs, std::int64_t begin, std::int64_t end) {
  if (runs.bytes == 4) return copy_elements<std::uint32_t>(runs, begin, end);
  if (runs.bytes == 8) return copy_elements<std::uint64_t>(runs, begin, end);
  const bool is_short = runs.bytes <= 256 && runs.bytes % 16 == 0;
  for (std::int64_t r = begin; r < end; ++r) {
    char* to = runs.to + r * runs.to_step;
    const char* from = runs.from + r * runs.from_step;
    if (is_short) {
      copy_short(to, from, runs.bytes);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(runs.bytes));
    }
  }
}

/// Runs that a thread takes at least.
inline std::int64_t run_grain(std::int64_t bytes) { return bytes >= 16384 ? 1 : 16384 / (bytes + 1) + 1; }

}  // namespace metronome::METRONOME_ISA
