#pragma once

#include <cstdint>
#include <string_view>

namespace metronome {

/// FNV-1a, 64 bits: keys of random ops and of initial values, from their paths.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

}  // namespace metronome
