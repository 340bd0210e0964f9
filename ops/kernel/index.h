// Positions of elements in kernels: divisions of indices, loops over dimensions, and the units in
// which elements are moved; elements of two bytes.
#pragma once

#include "graph/ir/half.h"
#include "ops/kernel/kernel.h"

/// Before a loop of a long body and few turns: keeps it a loop on a device.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define METRONOME_ROLLED _Pragma("unroll 1")
#else
#define METRONOME_ROLLED
#endif

namespace metronome::cuda {

/// i / d of numbers >= 0, by 32 bits where both fit: a device has no instruction for 64.
METRONOME_DEVICE Index quotient(Index i, Index d) {
  if (((i | d) >> 32) == 0) return static_cast<unsigned>(i) / static_cast<unsigned>(d);
  return i / d;
}

/// The place of an element of planes [planes, depth, height, width, inner]: `inner` is the number
/// of channels where those are stored last, and 1 where each has planes of its own.
struct PlacedIn {
  Index plane, d, h, w, channel;

  METRONOME_DEVICE PlacedIn(Index i, Index inner, Index depth, Index height, Index width) {
    const Index point = inner == 1 ? i : quotient(i, inner);
    const Index row = quotient(point, width), slab = quotient(row, height);
    channel = i - point * inner;
    plane = quotient(slab, depth);
    d = slab - plane * depth, h = row - slab * height, w = point - row * width;
  }
};

/// How many bits are set, and which is the lowest that is.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
METRONOME_DEVICE int bit_count(unsigned bits) { return __popc(bits); }
METRONOME_DEVICE int lowest_bit(unsigned bits) { return __ffs(static_cast<int>(bits)) - 1; }
#else
METRONOME_DEVICE int bit_count(unsigned bits) { return __builtin_popcount(bits); }
METRONOME_DEVICE int lowest_bit(unsigned bits) { return __builtin_ctz(bits); }
#endif

/// Two loops, one inside the other and counted row-major, walked `stride` elements at a time.
struct StridedLoops {
  Index size = 1;  ///< of the inner loop
  Index outer_step = 0, inner_step = 0;
  Index inners = 0;  ///< what an index of the inner loop moves by
  Index move = 0;    ///< what a place moves by
  Index carry = 0;   ///< and besides where the inner loop ends
};

METRONOME_DEVICE StridedLoops make_strided(Index stride, Index size, Index outer_step,
                                           Index inner_step) {
  const Index outers = stride / size, inners = stride - outers * size;
  return {size,
          outer_step,
          inner_step,
          inners,
          outers * outer_step + inners * inner_step,
          outer_step - size * inner_step};
}

/// Gives the places of elements begin, begin + stride, ..., one after the other, without a division
/// but at the beginning.
struct StridedPlaces {
  const StridedLoops& by;
  Index inner, place;  ///< the next one's

  METRONOME_DEVICE StridedPlaces(const StridedLoops& by, Index begin) : by(by) {
    const Index outer = quotient(begin, by.size);
    inner = begin - outer * by.size;
    place = outer * by.outer_step + inner * by.inner_step;
  }
  METRONOME_DEVICE Index next() {
    const Index result = place;
    inner += by.inners;
    place += by.move;
    if (inner >= by.size) {
      inner -= by.size;
      place += by.carry;
    }
    return result;
  }
};

/// Loops of two steps or more, which is why there are never more: 2^40 elements fill any device.
constexpr int kMaxLoops = 40;

/// Loops over dimensions of a tensor, outermost first.
struct Loops {
  int count;
  Index size[kMaxLoops];
  Index step[kMaxLoops];  ///< elements from one index of the loop to the next

  METRONOME_DEVICE void add(Index loop_size, Index loop_step) {
    size[count] = loop_size;
    step[count] = loop_step;
    ++count;
  }
  /// Returns the offset of step i, counted row-major over all loops together.
  METRONOME_DEVICE Index offset(Index i) const {
    Index result = 0;
    METRONOME_ROLLED
    for (int d = count - 1; d > 0; --d) {
      const Index next = quotient(i, size[d]);
      result += (i - next * size[d]) * step[d];
      i = next;
    }
    return count > 0 ? result + i * step[0] : 0;
  }
};

/// Units of kernels that move bytes without looking at elements: 1, 2, 4, 8 or 16 bytes at a time.
using Unit1 = unsigned char;
using Unit2 = unsigned short;
using Unit4 = unsigned;
using Unit8 = unsigned long long;
struct alignas(16) Unit16 {
  Unit8 half[2];
};

/// Neighbouring elements that are loaded and stored at once.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T v[kCount];
};

}  // namespace metronome::cuda
