// The inner loops of the own matrix product: one tile of C stays in registers over kTogether terms
// of k. Sums of more terms are made of such parts: rounding grows with the length of a chain.
//
//             v = 0        V-1          R rows and V registers of columns; the last register is
//          [ acc acc ... acc ]          cut to the columns that exist by a mask
//   R rows [ acc acc ... acc ]
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "ops/cpu/simd.h"

namespace metronome::METRONOME_ISA {

template <class T>
struct Tile {
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;  ///< [k, columns]
  std::int64_t ldb = 0;
  std::int64_t k = 0;
  const T* start = nullptr;  ///< what the sums of each row begin with, a bias; or null
  const T* more = nullptr;   ///< what the whole sums are added to, lying as C does; or null
  T* c = nullptr;
  std::int64_t ldc = 0;
  typename Simd<T>::Mask last{};
};

template <class T>
using TileKernel = void (*)(const Tile<T>&);

/// Terms of k that are added up in registers before their sum is added to those of others: with
/// twice as many, sums of 256 terms are more than twice as far from f64 as libtorch's.
constexpr std::int64_t kTermsTogether = 128;

/// Widest tile in registers, and most rows of a tile V registers wide: the sums, one row of B and
/// one broadcast must fit the register file.
constexpr int kMaxV = kRegisters == 32 ? 4 : 2;
constexpr int kMaxR = 8;
constexpr int max_rows(int v) { return std::min(kMaxR, (kRegisters - 2 - v) / v); }

template <class T, bool TransposeA, bool Cut, int R, int V>
void tile(const Tile<T>& t) {
  using S = Simd<T>;
  using Reg = typename S::Reg;
  // Few sums leave the multipliers waiting for each other; then even and odd k are summed apart.
  constexpr int U = R * V <= 4 ? 2 : 1;
  const auto load = [&](const T* p, int v) {
    if (Cut && v == V - 1) return S::load(p + v * S::kWidth, t.last);
    return S::load(p + v * S::kWidth);
  };

  const T* a = t.a;
  const T* b = t.b;
  const std::int64_t lda = t.lda, ldb = t.ldb;
  const T* start = t.start;
  const T* more = t.more;
  for (std::int64_t left = t.k;; left -= kTermsTogether) {
    Reg sums[U][R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        sums[0][r][v] = start ? load(start, v) : S::zero();
        if constexpr (U == 2) sums[U - 1][r][v] = S::zero();
      }
    }
    const auto step = [&](Reg(&into)[R][V]) __attribute__((always_inline)) {
      Reg row[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) row[v] = load(b, v);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Reg x = S::set(TransposeA ? a[r] : a[r * lda]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) into[r][v] = S::fma(x, row[v], into[r][v]);
      }
      a += TransposeA ? lda : 1;
      b += ldb;
    };
    std::int64_t p = std::min(left, kTermsTogether);
    for (; p >= U; p -= U) {
      step(sums[0]);
      if constexpr (U == 2) step(sums[U - 1]);
    }
    if (U == 2 && p > 0) step(sums[0]);

#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      T* c = t.c + r * t.ldc;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Reg sum = sums[0][r][v];
        if constexpr (U == 2) sum = sum + sums[U - 1][r][v];
        if (more) sum = sum + load(more + r * t.ldc, v);
        if (Cut && v == V - 1) {
          S::store(c + v * S::kWidth, t.last, sum);
        } else {
          S::store(c + v * S::kWidth, sum);
        }
      }
    }
    if (left <= kTermsTogether) return;
    start = nullptr;
    more = t.c;
  }
}

/// Tile kernels of one form by [columns in registers - 1][rows - 1]; null where they do not fit.
template <class T>
using TileTable = std::array<std::array<TileKernel<T>, kMaxR>, kMaxV>;

template <class T, bool TransposeA, bool Cut, int V, std::size_t... R>
constexpr std::array<TileKernel<T>, kMaxR> tile_column(std::index_sequence<R...>) {
  std::array<TileKernel<T>, kMaxR> column{};
  ((column[R] = &tile<T, TransposeA, Cut, static_cast<int>(R) + 1, V>), ...);
  return column;
}

template <class T, bool TransposeA, bool Cut, std::size_t... V>
constexpr TileTable<T> tile_table(std::index_sequence<V...>) {
  return {tile_column<T, TransposeA, Cut, static_cast<int>(V) + 1>(
      std::make_index_sequence<max_rows(static_cast<int>(V) + 1)>())...};
}

template <class T, bool TransposeA, bool Cut>
constexpr TileTable<T> tile_table() {
  return tile_table<T, TransposeA, Cut>(std::make_index_sequence<kMaxV>());
}

/// Four floats; the first `count` of them, and zeros.
#ifdef __AVX2__
using Quad = __m128;
inline Quad load_quad(const float* p) { return _mm_loadu_ps(p); }
inline Quad load_quad(const float* p, std::int64_t count) {
  const __m128i places = _mm_setr_epi32(0, 1, 2, 3);
  return _mm_maskload_ps(p, _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int>(count)), places));
}
#else
using Quad = Simd<float>::Reg;
inline Quad load_quad(const float* p) { return Simd<float>::load(p); }
inline Quad load_quad(const float* p, std::int64_t count) {
  return Simd<float>::load(p, Simd<float>::mask(count));
}
#endif

/// Transposes four columns of a block of B: out[i] = column i of the block's rows, one per element.
/// `row(r)` points at the block's row r.
template <class Row, class Load>
inline void transpose_columns(const Row& row, const Load& load, Simd<float>::Reg (&out)[4]) {
  // Register r takes rows r, 4 + r, ... into its 128-bit lanes as it loads; then each lane is a
  // 4x4 block to transpose.
  Simd<float>::Reg q[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
#if defined(__AVX512F__)
    q[r] = _mm512_castps128_ps512(load(row(r)));
    q[r] = _mm512_insertf32x4(q[r], load(row(4 + r)), 1);
    q[r] = _mm512_insertf32x4(q[r], load(row(8 + r)), 2);
    q[r] = _mm512_insertf32x4(q[r], load(row(12 + r)), 3);
#elif defined(__AVX2__)
    q[r] = _mm256_insertf128_ps(_mm256_castps128_ps256(load(row(r))), load(row(4 + r)), 1);
#else
    q[r] = load(row(r));
#endif
  }
#if defined(__AVX512F__)
  const auto a = _mm512_unpacklo_ps(q[0], q[1]), b = _mm512_unpackhi_ps(q[0], q[1]);
  const auto c = _mm512_unpacklo_ps(q[2], q[3]), d = _mm512_unpackhi_ps(q[2], q[3]);
  out[0] = _mm512_shuffle_ps(a, c, 0x44);
  out[1] = _mm512_shuffle_ps(a, c, 0xEE);
  out[2] = _mm512_shuffle_ps(b, d, 0x44);
  out[3] = _mm512_shuffle_ps(b, d, 0xEE);
#elif defined(__AVX2__)
  const auto a = _mm256_unpacklo_ps(q[0], q[1]), b = _mm256_unpackhi_ps(q[0], q[1]);
  const auto c = _mm256_unpacklo_ps(q[2], q[3]), d = _mm256_unpackhi_ps(q[2], q[3]);
  out[0] = _mm256_shuffle_ps(a, c, 0x44);
  out[1] = _mm256_shuffle_ps(a, c, 0xEE);
  out[2] = _mm256_shuffle_ps(b, d, 0x44);
  out[3] = _mm256_shuffle_ps(b, d, 0xEE);
#else
  for (int i = 0; i < 4; ++i) {
    for (int r = 0; r < 4; ++r) out[i][r] = q[r][i];
  }
#endif
}

/// out[p, j] = b[j, p] for a block of one register of columns j.
template <class Row>
void pack_block(const Row& row, std::int64_t k, float* out, std::int64_t width) {
  using S = Simd<float>;
  std::int64_t p = 0;
  for (; p + 4 <= k; p += 4) {
    S::Reg columns[4];
    transpose_columns(row, [p](const float* x) { return load_quad(x + p); }, columns);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) S::store(out + (p + i) * width, columns[i]);
  }
  if (p == k) return;
  S::Reg columns[4];
  transpose_columns(row, [p, k](const float* x) { return load_quad(x + p, k - p); }, columns);
  for (int i = 0; p + i < k; ++i) S::store(out + (p + i) * width, columns[i]);
}

/// out[p, j] = b[j, p] for p < k and j < n, in rows of `width` elements. Columns from n to the end
/// of their register hold copies of the last one: tiles cut them off.
inline void pack_transposed(const float* b, std::int64_t ldb, std::int64_t k, std::int64_t n,
                            float* out, std::int64_t width) {
  constexpr std::int64_t W = Simd<float>::kWidth;
  for (std::int64_t j = 0; j < n; j += W, out += W) {
    const float* from = b + j * ldb;
    if (n - j >= W) {
      pack_block([=](std::int64_t r) { return from + r * ldb; }, k, out, width);
    } else {
      const std::int64_t last = n - j - 1;
      pack_block([=](std::int64_t r) { return from + std::min(r, last) * ldb; }, k, out, width);
    }
  }
}

/// f64 is for checking: plain loops.
inline void pack_transposed(const double* b, std::int64_t ldb, std::int64_t k, std::int64_t n,
                            double* out, std::int64_t width) {
  for (std::int64_t p = 0; p < k; ++p) {
    for (std::int64_t j = 0; j < width; ++j) out[p * width + j] = b[std::min(j, n - 1) * ldb + p];
  }
}

}  // namespace metronome::METRONOME_ISA
