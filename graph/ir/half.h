// Elements of two bytes as C++ types, rounded and widened by their bits: the same bits from every
// compiler. The host's, nvcc and NVRTC read this file, so it uses built-in types and no standard
// header.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define METRONOME_ANYWHERE __host__ __device__
#else
#define METRONOME_ANYWHERE
#endif

namespace metronome {

/// bfloat16: the upper half of a float. Both types round to nearest, ties to even; what is too
/// large becomes an infinity, and a NaN stays one, with its sign and its upper digits. They have no
/// arithmetic of their own: an expression of them is one of float. A double is rounded to float
/// first, as libtorch does.
struct BFloat16 {
  unsigned short bits;

  BFloat16() = default;
  METRONOME_ANYWHERE constexpr explicit BFloat16(float x) : bits(rounded(x)) {}
  METRONOME_ANYWHERE constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
  }

 private:
  static METRONOME_ANYWHERE constexpr unsigned short rounded(float x) {
    const unsigned all = __builtin_bit_cast(unsigned, x);
    const bool nan = (all & 0x7fffffffu) > 0x7f800000u;
    const unsigned quiet = (all >> 16) | 0x40u;
    const unsigned near = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
    return static_cast<unsigned short>(nan ? quiet : near);
  }
};

/// IEEE's binary16: 5 bits of exponent, 10 of digits.
struct Float16 {
  unsigned short bits;

  Float16() = default;
  METRONOME_ANYWHERE constexpr explicit Float16(float x) : bits(rounded(x)) {}
  METRONOME_ANYWHERE constexpr operator float() const {
    const unsigned sign = (bits & 0x8000u) << 16, size = bits & 0x7fffu;
    // A subnormal number counts steps of 2^-24, and is a normal float.
    const unsigned small = __builtin_bit_cast(unsigned, static_cast<float>(size) * 0x1p-24f);
    const unsigned bias = size < 0x7c00u ? 0x38000000u : 0x70000000u;  // or not finite
    return __builtin_bit_cast(float, sign | (size < 0x400u ? small : (size << 13) + bias));
  }

 private:
  static METRONOME_ANYWHERE constexpr unsigned short rounded(float x) {
    const unsigned all = __builtin_bit_cast(unsigned, x);
    const unsigned sign = (all >> 16) & 0x8000u, size = all & 0x7fffffffu;
    unsigned near = 0;
    if (size > 0x7f800000u) {
      near = 0x7e00u | ((size >> 13) & 0x3ffu);
    } else if (size >= 0x47800000u) {  // 2^16 and more
      near = 0x7c00u;
    } else if (size >= 0x38800000u) {  // 2^-14 and more: normal, and may round up to infinity
      near = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
    } else {  // in steps of 2^-24
      const unsigned exponent = size >> 23, digits = (size & 0x7fffffu) | 0x800000u;
      const unsigned shift = 126u - exponent < 31u ? 126u - exponent : 31u;
      near = (digits + (1u << (shift - 1)) - 1u + ((digits >> shift) & 1u)) >> shift;
    }
    return static_cast<unsigned short>(sign | near);
  }
};

}  // namespace metronome
