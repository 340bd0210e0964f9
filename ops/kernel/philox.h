// The cipher behind random ops and initial values: Philox 4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011), in built-in types: the same numbers on every back end.
#pragma once

#include "ops/kernel/kernel.h"

namespace metronome::cuda {

struct PhiloxKey {
  unsigned word[2];
  METRONOME_DEVICE unsigned& operator[](Index i) { return word[i]; }
  METRONOME_DEVICE unsigned operator[](Index i) const { return word[i]; }
};

/// Four independent 32-bit numbers.
struct PhiloxWords {
  unsigned word[4];
  /// By choice and not by address, so that a device keeps the words in registers.
  METRONOME_DEVICE unsigned operator[](Index i) const {
    return i < 2 ? (i == 0 ? word[0] : word[1]) : (i == 2 ? word[2] : word[3]);
  }
};

/// The cipher's key for (seed, key).
METRONOME_DEVICE PhiloxKey philox_key(unsigned long long seed, unsigned long long key) {
  const unsigned long long mixed =
      (seed ^ (key * 0x9E3779B97F4A7C15ull)) * 0xBF58476D1CE4E5B9ull ^ key;
  return {static_cast<unsigned>(mixed), static_cast<unsigned>(mixed >> 32)};
}

/// Block `index` of the stream (seed, replay, key).
METRONOME_DEVICE PhiloxWords philox(unsigned long long seed, unsigned long long replay,
                                    unsigned long long key, unsigned long long index) {
  PhiloxKey k = philox_key(seed, key);
  // The 128-bit counter is (index, replay).
  PhiloxWords c = {static_cast<unsigned>(index), static_cast<unsigned>(index >> 32),
                   static_cast<unsigned>(replay), static_cast<unsigned>(replay >> 32)};
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * c.word[0];
    const unsigned long long p1 = 0xCD9E8D57ull * c.word[2];
    c = {static_cast<unsigned>(p1 >> 32) ^ c.word[1] ^ k.word[0], static_cast<unsigned>(p1),
         static_cast<unsigned>(p0 >> 32) ^ c.word[3] ^ k.word[1], static_cast<unsigned>(p0)};
    k.word[0] += 0x9E3779B9u;
    k.word[1] += 0xBB67AE85u;
  }
  return c;
}

/// A number in [0, 1), a multiple of 2^-24: exact in f32.
METRONOME_DEVICE float uniform(unsigned bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace metronome::cuda
