// Tiles of minimal filtering (convolution_winograd_cpu.cc): F(2 x 2, 3 x 3) and F(2 x 2, 2 x 2) of
// Lavin and Gray (2016). A block of 64 tiles lies side by side, so that each step is a loop over
// whole registers.
//
//   3 taps   B^T = 1  0 -1  0     G = 1    0    0        A^T = 1  1  1  0
//                  0  1  1  0         1/2  1/2  1/2            0  1 -1 -1
//                  0 -1  1  0         1/2 -1/2  1/2
//                  0  1  0 -1         0    0    1
//
//   2 taps   B^T = 1 -1  0        G = 1  0               A^T = 1  1  0
//                  0  1  0            1  1                     0  1  1
//                  0 -1  1            0  1
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/cpu/simd.h"

namespace metronome::METRONOME_ISA {

/// Tiles of a block, and the terms of each short sum.
constexpr std::int64_t kTiles = 64;

/// The five maps of one dimension. A kernel of `taps` elements makes two elements of the result out
/// of `size` of the input, by as many products.
template <int Taps>
struct Filtering;

template <>
struct Filtering<3> {
  static constexpr int taps = 3, size = 4;
  template <class T>
  static void input(const T (&d)[4], T (&to)[4]) {  // B^T d
    to[0] = d[0] - d[2], to[1] = d[1] + d[2], to[2] = d[2] - d[1], to[3] = d[1] - d[3];
  }
  static void kernel(const float (&g)[3], float (&to)[4]) {  // G g
    to[0] = g[0], to[1] = 0.5f * (g[0] + g[1] + g[2]);
    to[2] = 0.5f * (g[0] - g[1] + g[2]), to[3] = g[2];
  }
  static void result(const float (&m)[4], float (&to)[2]) {  // A^T m
    to[0] = m[0] + m[1] + m[2], to[1] = m[1] - m[2] - m[3];
  }
  template <class T>
  static void grad(const T (&y)[2], T (&to)[4]) {  // A y
    to[0] = y[0], to[1] = y[0] + y[1], to[2] = y[0] - y[1], to[3] = -y[1];
  }
  static void weight(const float (&m)[4], float (&to)[3]) {  // G^T m
    to[0] = m[0] + 0.5f * (m[1] + m[2]), to[1] = 0.5f * (m[1] - m[2]);
    to[2] = 0.5f * (m[1] + m[2]) + m[3];
  }
};

template <>
struct Filtering<2> {
  static constexpr int taps = 2, size = 3;
  template <class T>
  static void input(const T (&d)[3], T (&to)[3]) {
    to[0] = d[0] - d[1], to[1] = d[1], to[2] = d[2] - d[1];
  }
  static void kernel(const float (&g)[2], float (&to)[3]) {
    to[0] = g[0], to[1] = g[0] + g[1], to[2] = g[1];
  }
  static void result(const float (&m)[3], float (&to)[2]) {
    to[0] = m[0] + m[1], to[1] = m[1] + m[2];
  }
  template <class T>
  static void grad(const T (&y)[2], T (&to)[3]) {
    to[0] = y[0], to[1] = y[0] + y[1], to[2] = y[1];
  }
  static void weight(const float (&m)[3], float (&to)[2]) {
    to[0] = m[0] + m[1], to[1] = m[1] + m[2];
  }
};

/// Numbers of a transformed tile.
template <class F>
constexpr std::int64_t kPositions = F::size* F::size;

/// `Map` along the columns of m[In][In], then along the rows: to[Out][Out].
template <int In, int Out, class Map>
inline void both_ways(const float (&m)[In][In], const Map& map, float (&to)[Out][Out]) {
  float rows[Out][In];
  for (int j = 0; j < In; ++j) {
    float column[In], mapped[Out];
    for (int i = 0; i < In; ++i) column[i] = m[i][j];
    map(column, mapped);
    for (int i = 0; i < Out; ++i) rows[i][j] = mapped[i];
  }
  for (int i = 0; i < Out; ++i) map(rows[i], to[i]);
}

/// Images with channels, and how tiles lie over them: element m of tile (i, j) along the rows is
/// row step (2 i + m) - low_y of the image, and along the columns likewise.
struct TiledImages {
  std::int64_t images = 0, channels = 0, height = 0, width = 0;
  std::int64_t rows = 0, columns = 0;  ///< of tiles
  std::int64_t step = 1, low_y = 0, low_x = 0;

  std::int64_t tiles() const { return images * rows * columns; }
  std::int64_t blocks() const { return (tiles() + kTiles - 1) / kTiles; }
  std::int64_t plane(std::int64_t image, std::int64_t channel) const {
    return (image * channels + channel) * height * width;
  }
};

/// f(image, row, column, count, at) for each run of a block's tiles that share a row of tiles;
/// `at`: the first one's place in the block.
template <class F>
void for_runs(const TiledImages& m, std::int64_t block, const F& f) {
  const std::int64_t begin = block * kTiles, end = std::min(begin + kTiles, m.tiles());
  for (std::int64_t tile = begin; tile < end;) {
    const std::int64_t row = tile / m.columns, column = tile % m.columns;
    const std::int64_t count = std::min(m.columns - column, end - tile);
    f(row / m.rows, row % m.rows, column, count, tile - begin);
    tile += count;
  }
}

using FloatReg = Simd<float>::Reg;

/// Elements 0, 2, ... of `low` and then of `high`; or 1, 3, ...
template <bool Odd>
inline FloatReg every_other(FloatReg low, FloatReg high) {
#ifdef __AVX512F__
  const __m512i first =
      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(low, first + _mm512_set1_epi32(Odd ? 1 : 0), high);
#else
  const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(low, high, Odd ? 0xDD : 0x88));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xD8));
#endif
}

/// Elements [begin, begin + kWidth) of a row of `width`, zeros beyond it.
inline FloatReg load_part(const float* row, std::int64_t width, std::int64_t begin) {
  using S = Simd<float>;
  if (begin >= 0 && begin + S::kWidth <= width) return S::load(row + begin);
  const std::int64_t first = std::clamp<std::int64_t>(-begin, 0, S::kWidth);
  const std::int64_t last = std::clamp<std::int64_t>(width - begin, first, S::kWidth);
#ifdef __AVX512F__
  const auto mask = static_cast<S::Mask>(S::mask(last) & ~S::mask(first));
#else
  const S::Mask mask = _mm256_andnot_si256(S::mask(first), S::mask(last));
#endif
  return S::load(row + begin, mask);
}

/// d[j] = element begin + Step (2 t + j) of a row, for a register of tiles t.
template <int Step, int Count>
inline void load_elements(const float* row, std::int64_t width, std::int64_t begin,
                          FloatReg (&d)[Count]) {
  constexpr std::int64_t W = Simd<float>::kWidth;
  const auto at = [&](std::int64_t i) {
    const FloatReg low = load_part(row, width, begin + i);
    if constexpr (Step == 1) return low;
    return every_other<false>(low, load_part(row, width, begin + i + W));
  };
  for (int j = 0; j < Count; j += 2) {
    const FloatReg low = at(Step * j), high = at(Step * (j + W));
    d[j] = every_other<false>(low, high);
    if (j + 1 < Count) d[j + 1] = every_other<true>(low, high);
  }
}

/// `map` both ways over the In x In elements of each tile of a block of one channel:
/// to[p * stride + tile]. Tiles that are not there are zeros.
template <int In, int Out, int Step, class Map>
inline void transform_tiles(const TiledImages& m, const float* from, std::int64_t channel,
                            std::int64_t block, const Map& map, float* to, std::int64_t stride) {
  using S = Simd<float>;
  // A run's last register goes beyond it: the next run writes anew what it leaves there.
  alignas(64) float lines[In][Out][kTiles + S::kWidth];  // [row of the tile][position][tile]
  for_runs(m, block,
           [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t count,
               std::int64_t at) {
             const float* const plane = from + m.plane(image, channel);
             for (std::int64_t i = 0; i < In; ++i) {
               const std::int64_t y = Step * (2 * row + i) - m.low_y;
               const bool inside = y >= 0 && y < m.height;
               for (std::int64_t t = 0; t < count; t += S::kWidth) {
                 FloatReg d[In], mapped[Out];
                 load_elements<Step>(plane + (inside ? y : 0) * m.width, inside ? m.width : 0,
                                     Step * 2 * (column + t) - m.low_x, d);
                 map(d, mapped);
                 for (int j = 0; j < Out; ++j) S::store(lines[i][j] + at + t, mapped[j]);
               }
             }
           });
  const std::int64_t tiles = std::min(kTiles, m.tiles() - block * kTiles);
  for (std::int64_t j = 0; j < Out; ++j) {
    for (auto& each : lines) std::fill(each[j] + tiles, each[j] + kTiles, 0.0f);
    for (std::int64_t t = 0; t < kTiles; t += S::kWidth) {
      FloatReg d[In], mapped[Out];
      for (int i = 0; i < In; ++i) d[i] = S::load(lines[i][j] + t);
      map(d, mapped);
      for (int i = 0; i < Out; ++i) S::store(to + (i * Out + j) * stride + t, mapped[i]);
    }
  }
}

/// B^T d B of a block's tiles of one channel.
template <class F>
inline void transform_input(const TiledImages& m, const float* from, std::int64_t channel,
                            std::int64_t block, float* to, std::int64_t stride) {
  const auto map = [](const auto& d, auto& mapped) { F::input(d, mapped); };
  if (m.step == 2) {
    transform_tiles<F::size, F::size, 2>(m, from, channel, block, map, to, stride);
  } else {
    transform_tiles<F::size, F::size, 1>(m, from, channel, block, map, to, stride);
  }
}

/// A g A^T of the 2 x 2 elements of a block's tiles: the transpose of `transform_result`.
template <class F>
inline void transform_grad(const TiledImages& m, const float* from, std::int64_t channel,
                           std::int64_t block, float* to, std::int64_t stride) {
  const auto map = [](const auto& d, auto& mapped) { F::grad(d, mapped); };
  transform_tiles<2, F::size, 1>(m, from, channel, block, map, to, stride);
}

/// A^T m A of a block's tiles, and `more`, as elements of one channel of the result. False if one
/// of them is not finite.
template <class F>
inline bool transform_result(const TiledImages& m, const float* from, std::int64_t stride,
                             float more, std::int64_t channel, std::int64_t block, float* to) {
  alignas(64) float rows[2][2 * kTiles];  // each tile's two elements side by side
  alignas(64) float wrong[kTiles];        // zeros, or NaN
#pragma GCC ivdep
  for (std::int64_t t = 0; t < kTiles; ++t) {
    float sums[F::size][F::size], y[2][2];
    for (int i = 0; i < F::size; ++i) {
      for (int j = 0; j < F::size; ++j) sums[i][j] = from[(i * F::size + j) * stride + t];
    }
    both_ways(
        sums, [](const auto& s, auto& mapped) { F::result(s, mapped); }, y);
    for (int i = 0; i < 2; ++i) {
      rows[i][2 * t] = y[i][0] + more, rows[i][2 * t + 1] = y[i][1] + more;
    }
    wrong[t] = (rows[0][2 * t] + rows[0][2 * t + 1] + rows[1][2 * t] + rows[1][2 * t + 1]) * 0.0f;
  }
  for_runs(m, block,
           [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t count,
               std::int64_t at) {
             float* const plane = to + m.plane(image, channel);
             const std::int64_t x = m.step * 2 * column - m.low_x;
             const std::int64_t width = std::min(2 * count, (m.width - x + m.step - 1) / m.step);
             for (std::int64_t i = 0; i < 2; ++i) {
               const std::int64_t y = m.step * (2 * row + i) - m.low_y;
               if (y >= m.height) break;
               float* const line = plane + y * m.width + x;
               const float* const elements = rows[i] + 2 * at;
               if (m.step == 1) {
                 std::memcpy(line, elements, static_cast<std::size_t>(width) * sizeof(float));
               } else {
                 for (std::int64_t e = 0; e < width; ++e) line[m.step * e] = elements[e];
               }
             }
           });
  float all = 0;
  for (std::int64_t t = 0; t < kTiles; ++t) all += wrong[t];
  return all == 0;
}

/// G g G^T of up to kTiles kernels, g[element][kernel]: to[p * stride + kernel].
template <class F>
inline void transform_kernels(const float (&g)[F::taps * F::taps][kTiles], std::int64_t count,
                              float* to, std::int64_t stride) {
#pragma GCC ivdep
  for (std::int64_t t = 0; t < count; ++t) {
    float elements[F::taps][F::taps], mapped[F::size][F::size];
    for (int e = 0; e < F::taps * F::taps; ++e) elements[e / F::taps][e % F::taps] = g[e][t];
    both_ways(
        elements, [](const auto& d, auto& u) { F::kernel(d, u); }, mapped);
    for (int p = 0; p < F::size * F::size; ++p) {
      to[p * stride + t] = mapped[p / F::size][p % F::size];
    }
  }
}

/// G^T m G: a kernel from m[p * stride].
template <class F>
inline void transform_weight(const float* m, std::int64_t stride, float (&to)[F::taps][F::taps]) {
  float sums[F::size][F::size];
  for (int p = 0; p < F::size * F::size; ++p) sums[p / F::size][p % F::size] = m[p * stride];
  both_ways(
      sums, [](const auto& s, auto& mapped) { F::weight(s, mapped); }, to);
}

}  // namespace metronome::METRONOME_ISA
