// Random orders of which each place is found alone: Mitchell, Stokes, Frank and Holmes,
// "Bandwidth-optimal random shuffling for GPUs", 2022. A Feistel network permutes [0, 4^h); it is
// walked until it comes to a number below the count. Integers alone: the same orders everywhere.
#pragma once

#include "ops/kernel/kernel.h"
#include "ops/kernel/philox.h"

namespace metronome::cuda {

/// The order of [0, count) that (seed, key, epoch) choose; count from 1 to 2^62.
class ShuffledOrder {
 public:
  METRONOME_DEVICE ShuffledOrder(unsigned long long seed, unsigned long long key,
                                 unsigned long long epoch, unsigned long long count)
      : count_(count) {
    while (half_ < 31 && (1ull << (2 * half_)) < count) ++half_;
    for (int block = 0; block < kRounds / 4; ++block) {
      const PhiloxWords words = philox(seed, epoch, key, static_cast<unsigned long long>(block));
      for (int i = 0; i < 4; ++i) keys_[4 * block + i] = words[i];
    }
  }

  /// The number at a place below the count.
  METRONOME_DEVICE unsigned long long at(unsigned long long place) const {
    do {
      place = permuted(place);
    } while (place >= count_);
    return place;
  }

 private:
  static constexpr int kRounds = 8;

  /// The end of MurmurHash3: each bit of x changes each of the result with probability 1/2.
  METRONOME_DEVICE static unsigned mixed(unsigned x) {
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
  }

  METRONOME_DEVICE unsigned long long permuted(unsigned long long x) const {
    const unsigned long long mask = (1ull << half_) - 1;
    unsigned long long left = x >> half_, right = x & mask;
    for (int i = 0; i < kRounds; ++i) {
      const unsigned long long next =
          left ^ (mixed(static_cast<unsigned>(right) ^ keys_[i]) & mask);
      left = right;
      right = next;
    }
    return left << half_ | right;
  }

  unsigned long long count_;
  int half_ = 1;  ///< bits of each half
  unsigned keys_[kRounds];
};

}  // namespace metronome::cuda
