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

/// Channels whose elements are fetched ahead: the processor sees no pattern in planes far apart.
constexpr std::int64_t kAhead = 3;

/// The five maps of one dimension. A kernel of `taps` elements makes two elements of the result out
/// of `size` of the input, by as many products.
template <int Taps>
struct WinogradTransform;

template <>
struct WinogradTransform<3> {
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
struct WinogradTransform<2> {
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
constexpr std::int64_t kPositions = F::size * F::size;

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
  using Places [[gnu::vector_size(sizeof(FloatReg))]] = std::int32_t;
  return [&]<int... k>(std::integer_sequence<int, k...>) {
    return __builtin_shuffle(low, high, Places{2 * k + (Odd ? 1 : 0)...});
  }(std::make_integer_sequence<int, Simd<float>::kWidth>());
}

/// A register of elements begin, begin + Step, ... of rows of `width`; zeros beyond a row.
template <int Step>
class RowPart {
 public:
  using S = Simd<float>;
  RowPart(std::int64_t width, std::int64_t begin) {
    for (auto& part : parts_) {
      const std::int64_t first = std::clamp<std::int64_t>(-begin, 0, S::kWidth);
      const std::int64_t last = std::clamp<std::int64_t>(width - begin, first, S::kWidth);
      part.begin = begin;
      part.mask = static_cast<S::Mask>(S::mask(last) & ~S::mask(first));
      begin += S::kWidth;
    }
  }
  FloatReg of(const float* row) const {
    const auto load = [&](const Registers& part) { return S::load(row + part.begin, part.mask); };
    if constexpr (Step == 1)
      return load(parts_[0]);
    else
      return every_other<false>(load(parts_[0]), load(parts_[1]));
  }

 private:
  struct Registers {
    std::int64_t begin;
    S::Mask mask;
  };
  Registers parts_[Step];
};

/// `map` both ways over the In x In elements of each tile of a block of one channel:
/// to[p * stride + tile]. Tiles that are not there are zeros. A register holds neighbouring tiles
/// whatever their row, so narrow images fill it too: each row's elements are copied first, two a
/// tile from its own row on, and from two further on.
///
///   tiles of two rows   a0 a1 | b0 b1       elements 0 and 1 of each      a0 a0 a1 a1 b0 b0 b1 b1
///                                           elements 2 and 3 of each      a1 a1 .. .. b1 b1 .. ..
template <int In, int Out, int Step, class Map>
inline void transform_tiles(const TiledImages& m, const float* from, std::int64_t channel,
                            std::int64_t block, const Map& map, float* to, std::int64_t stride) {
  using S = Simd<float>;
  constexpr int kPairs = (In + 1) / 2;
  constexpr std::int64_t kLine = 64 / sizeof(float);
  // A run's last register goes beyond it: the next run writes anew what it leaves there.
  alignas(64) float pairs[In][kPairs][2 * kTiles + S::kWidth];
  for_runs(m, block,
           [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t count,
               std::int64_t at) {
             const float* const plane = from + m.plane(image, channel);
             const float* lines[In];  // null where there is no such row
             for (int i = 0; i < In; ++i) {
               const std::int64_t y = Step * (2 * row + i) - m.low_y;
               lines[i] = y >= 0 && y < m.height ? plane + y * m.width : nullptr;
             }
             for (int i = 0; i < 2; ++i) {
               if (lines[i] == nullptr) continue;
               const float* const later =
                   lines[i] + kAhead * m.height * m.width + Step * 2 * column;
               for (std::int64_t e = 0; e < Step * 2 * count; e += kLine)
                 __builtin_prefetch(later + e);
             }
             for (int pair = 0; pair < kPairs; ++pair) {
               for (std::int64_t e = 0; e < 2 * count; e += S::kWidth) {
                 const RowPart<Step> part(m.width, Step * (2 * (column + pair) + e) - m.low_x);
                 for (int i = 0; i < In; ++i) {
                   S::store(pairs[i][pair] + 2 * at + e,
                            lines[i] != nullptr ? part.of(lines[i]) : S::zero());
                 }
               }
             }
           });
  const std::int64_t tiles = std::min(kTiles, m.tiles() - block * kTiles);
  for (auto& row : pairs) {
    for (auto& each : row) std::fill(each + 2 * tiles, each + 2 * kTiles, 0.0f);
  }
  for (std::int64_t t = 0; t < kTiles; t += S::kWidth) {
    FloatReg rows[In][Out];
    for (int i = 0; i < In; ++i) {
      FloatReg d[In];
      for (int j = 0; j < In; j += 2) {
        const float* const elements = pairs[i][j / 2] + 2 * t;
        const FloatReg low = S::load(elements), high = S::load(elements + S::kWidth);
        d[j] = every_other<false>(low, high);
        if (j + 1 < In) d[j + 1] = every_other<true>(low, high);
      }
      map(d, rows[i]);
    }
    for (int j = 0; j < Out; ++j) {
      FloatReg d[In], mapped[Out];
      for (int i = 0; i < In; ++i) d[i] = rows[i][j];
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
    both_ways(sums, [](const auto& s, auto& mapped) { F::result(s, mapped); }, y);
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
    both_ways(elements, [](const auto& d, auto& u) { F::kernel(d, u); }, mapped);
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
  both_ways(sums, [](const auto& s, auto& mapped) { F::weight(s, mapped); }, to);
}

}  // namespace metronome::METRONOME_ISA
