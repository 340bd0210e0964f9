// The numbers of random ops and initial values: Philox 4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011), the same on every back end.
#pragma once

#include <array>
#include <cstdint>

namespace metronome {

using PhiloxKey = std::array<std::uint32_t, 2>;

/// The cipher's key for (seed, key).
inline PhiloxKey philox_key(std::uint64_t seed, std::uint64_t key) {
  const std::uint64_t mixed = (seed ^ (key * 0x9E3779B97F4A7C15ull)) * 0xBF58476D1CE4E5B9ull ^ key;
  return {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)};
}

/// Block `index` of the stream (seed, replay, key): four independent 32-bit numbers.
inline std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t replay,
                                           std::uint64_t key, std::uint64_t index) {
  // The 128-bit counter is (index, replay).
  auto [k0, k1] = philox_key(seed, key);
  std::array<std::uint32_t, 4> c = {
      static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
      static_cast<std::uint32_t>(replay), static_cast<std::uint32_t>(replay >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// A number in [0, 1), a multiple of 2^-24: exact in f32.
inline float uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace metronome
