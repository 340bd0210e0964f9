// Parts that row kernels share: walking a row register by register, and sums of several rows at
// once.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/cpu/simd.h"

namespace metronome::METRONOME_ISA {

/// Row kernels share their threads' work out in parts of at least so many elements: a team's start
/// costs 1-2 us, as much as this many elements.
constexpr std::int64_t kElementsPerPart = 16 * 1024;

/// Threads for a kernel over `elements`: all of them or one.
inline int threads_for_elements(std::int64_t elements, int threads) {
  return elements >= 2 * kElementsPerPart ? threads : 1;
}

/// Returns `average`, that of x - mean, if it is no larger than rounding the mean of x to T
/// explains. A larger one means that `mean` is of something else, and is to be taken as it is: then
/// returns 0.
template <class T, class Average>
inline Average left_of_mean(Average average, T mean) {
  using Limits = std::numeric_limits<T>;
  const Average most = std::abs(static_cast<Average>(mean)) * Limits::epsilon() +
                       static_cast<Average>(Limits::denorm_min());
  return std::abs(average) <= most ? average : 0;
}

/// left_of_mean for a register of averages and means.
template <class T>
inline typename Simd<T>::Reg left_of_mean(typename Simd<T>::Reg average,
                                          typename Simd<T>::Reg mean) {
  using S = Simd<T>;
  using Limits = std::numeric_limits<T>;
  const auto size = [](auto x) { return S::max(x, S::zero() - x); };
  const auto most = S::fma(size(mean), S::set(Limits::epsilon()), S::set(Limits::denorm_min()));
  return S::if_less(most, size(average), S::zero(), average);
}

/// f(i, load, store) for each register of a row of n elements; load(p) reads the register at p + i,
/// the last one under a mask (zero beyond the row); store(p, x) writes it; cut(x) is x, zero beyond
/// the row.
template <class T, class F>
inline __attribute__((always_inline)) void for_registers(std::int64_t n, const F& f) {
  using S = Simd<T>;
  using Reg = typename S::Reg;
  std::int64_t i = 0;
  for (; i + S::kWidth <= n; i += S::kWidth) {
    f([i](const T* p) { return S::load(p + i); }, [i](T* p, Reg x) { S::store(p + i, x); },
      [](Reg x) { return x; });
  }
  if (i == n) return;
  const auto mask = S::mask(n - i);
  f([i, mask](const T* p) { return S::load(p + i, mask); },
    [i, mask](T* p, Reg x) { S::store(p + i, mask, x); },
    [mask](Reg x) { return S::select(mask, x, S::zero()); });
}

/// f(begin, count) for the parts of n elements, or rows, of which at most `most` are added up
/// before their sum joins those of the other parts: long sums keep their digits.
template <class F>
inline __attribute__((always_inline)) void for_parts(std::int64_t n, std::int64_t most,
                                                     const F& f) {
  for (std::int64_t begin = 0; begin < n; begin += most) f(begin, std::min(most, n - begin));
}
constexpr std::int64_t kElementsTogether = sizeof(Simd<float>::Reg) > 16 ? 512 : 256;
constexpr std::int64_t kRowsTogether = 32;

/// The sums of up to four registers; a register's sum has the same bits in every place.
template <class T, int R>
inline std::array<T, 4> sums(const typename Simd<T>::Reg (&x)[R]) {
  static_assert(R <= 4);
  std::array<T, 4> result{};
#ifdef __AVX2__
  if constexpr (std::is_same_v<T, float>) {
    // Halves are added until four lanes are left, then the four rows are added crosswise.
    const auto lanes = [&x](int r) {
      if (r >= R) return _mm_setzero_ps();
#ifdef __AVX512F__
      const __m256 half = _mm512_castps512_ps256(x[r]) + _mm512_extractf32x8_ps(x[r], 1);
#else
      const __m256 half = x[r];
#endif
      return _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
    };
    const __m128 a = lanes(0), b = lanes(1), c = lanes(2), d = lanes(3);
    const __m128 ab = _mm_unpacklo_ps(a, b) + _mm_unpackhi_ps(a, b);
    const __m128 cd = _mm_unpacklo_ps(c, d) + _mm_unpackhi_ps(c, d);
    _mm_storeu_ps(result.data(), _mm_movelh_ps(ab, cd) + _mm_movehl_ps(cd, ab));
    return result;
  }
#endif
  for (int r = 0; r < R; ++r) result[static_cast<std::size_t>(r)] = Simd<T>::sum(x[r]);
  return result;
}

}  // namespace metronome::METRONOME_ISA
