// Tiles of F(2 x 2, 3 x 3) (convolution_winograd_cpu.cc): what the two sides of its products are
// made of, and what its sums become. A block of 64 tiles lies side by side, so that each step is a
// loop over whole registers.
//
//   B^T = 1  0 -1  0     G = 1    0    0        A^T = 1  1  1  0
//         0  1  1  0         1/2  1/2  1/2            0  1 -1 -1
//         0 -1  1  0         1/2 -1/2  1/2
//         0  1  0 -1         0    0    1
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace metronome::METRONOME_ISA {

/// Numbers of a transformed tile.
constexpr std::int64_t kPositions = 16;
/// Tiles of a block, and the terms of each short sum.
constexpr std::int64_t kTiles = 64;

/// Images with channels, and how tiles of another plane lie over them.
struct TiledImages {
  std::int64_t images = 0, channels = 0, height = 0, width = 0;
  std::int64_t rows = 0, columns = 0;  ///< of tiles
  std::int64_t low_y = 0, low_x = 0;   ///< tile (i, j) begins at (2 i - low_y, 2 j - low_x)

  std::int64_t tiles() const { return images * rows * columns; }
  std::int64_t blocks() const { return (tiles() + kTiles - 1) / kTiles; }
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

/// Elements [begin, begin + count) of a row, zeros beyond it.
inline void copy_row(const float* row, std::int64_t width, std::int64_t begin, std::int64_t count,
                     float* to) {
  const std::int64_t first = std::clamp<std::int64_t>(-begin, 0, count);
  const std::int64_t last = std::clamp<std::int64_t>(width - begin, first, count);
  for (std::int64_t i = 0; i < first; ++i) to[i] = 0;
  std::memcpy(to + first, row + begin + first,
              static_cast<std::size_t>(last - first) * sizeof(float));
  for (std::int64_t i = last; i < count; ++i) to[i] = 0;
}

/// B^T d B of a block's tiles of one channel: to[p * stride + tile].
inline void transform_input(const TiledImages& m, const float* from, std::int64_t channel,
                            std::int64_t block, float* to, std::int64_t stride) {
  alignas(64) float
      lines[4][4][kTiles];  // [row of the tile][position in it][tile], transformed along the row
  alignas(64) float line[2 * kTiles + 2];
  if (m.tiles() - block * kTiles < kTiles) std::memset(lines, 0, sizeof(lines));
  for_runs(m, block,
           [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t count,
               std::int64_t at) {
             const float* const plane = from + (image * m.channels + channel) * m.height * m.width;
             for (std::int64_t i = 0; i < 4; ++i) {
               const std::int64_t y = 2 * row - m.low_y + i;
               float* const a = lines[i][0] + at;
               float* const b = lines[i][1] + at;
               float* const c = lines[i][2] + at;
               float* const d = lines[i][3] + at;
               if (y < 0 || y >= m.height) {
                 for (float* const each : {a, b, c, d}) std::fill_n(each, count, 0.0f);
                 continue;
               }
               copy_row(plane + y * m.width, m.width, 2 * column - m.low_x, 2 * count + 2, line);
#pragma GCC ivdep
               for (std::int64_t t = 0; t < count; ++t) {
                 const float x0 = line[2 * t], x1 = line[2 * t + 1];
                 const float x2 = line[2 * t + 2], x3 = line[2 * t + 3];
                 a[t] = x0 - x2;
                 b[t] = x1 + x2;
                 c[t] = x2 - x1;
                 d[t] = x1 - x3;
               }
             }
           });
  for (std::int64_t j = 0; j < 4; ++j) {
    const float* const a = lines[0][j];
    const float* const b = lines[1][j];
    const float* const c = lines[2][j];
    const float* const d = lines[3][j];
#pragma GCC ivdep
    for (std::int64_t t = 0; t < kTiles; ++t) {
      to[j * stride + t] = a[t] - c[t];
      to[(4 + j) * stride + t] = b[t] + c[t];
      to[(8 + j) * stride + t] = c[t] - b[t];
      to[(12 + j) * stride + t] = b[t] - d[t];
    }
  }
}

/// A g A^T of the 2 x 2 elements of a block's tiles: what `transform_output` is the transpose of.
inline void transform_grad(const TiledImages& m, const float* from, std::int64_t channel,
                           std::int64_t block, float* to, std::int64_t stride) {
  alignas(64) float lines[2][4][kTiles];
  alignas(64) float line[2 * kTiles];
  if (m.tiles() - block * kTiles < kTiles) std::memset(lines, 0, sizeof(lines));
  for_runs(m, block,
           [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t count,
               std::int64_t at) {
             const float* const plane = from + (image * m.channels + channel) * m.height * m.width;
             for (std::int64_t i = 0; i < 2; ++i) {
               const std::int64_t y = 2 * row + i;
               float* const a = lines[i][0] + at;
               float* const b = lines[i][1] + at;
               float* const c = lines[i][2] + at;
               float* const d = lines[i][3] + at;
               if (y >= m.height) {
                 for (float* const each : {a, b, c, d}) std::fill_n(each, count, 0.0f);
                 continue;
               }
               copy_row(plane + y * m.width, m.width, 2 * column, 2 * count, line);
#pragma GCC ivdep
               for (std::int64_t t = 0; t < count; ++t) {
                 const float x0 = line[2 * t], x1 = line[2 * t + 1];
                 a[t] = x0;
                 b[t] = x0 + x1;
                 c[t] = x0 - x1;
                 d[t] = -x1;
               }
             }
           });
  for (std::int64_t j = 0; j < 4; ++j) {
    const float* const a = lines[0][j];
    const float* const b = lines[1][j];
#pragma GCC ivdep
    for (std::int64_t t = 0; t < kTiles; ++t) {
      to[j * stride + t] = a[t];
      to[(4 + j) * stride + t] = a[t] + b[t];
      to[(8 + j) * stride + t] = a[t] - b[t];
      to[(12 + j) * stride + t] = -b[t];
    }
  }
}

/// A^T m A of a block's tiles, and `more`, as elements of one channel of the result. False where
/// one of them is not finite.
inline bool transform_output(const TiledImages& m, const float* from, std::int64_t stride,
                             float more, std::int64_t channel, std::int64_t block, float* to) {
  alignas(64) float rows[2][2 * kTiles];  // each tile's two elements side by side
  alignas(64) float wrong[kTiles];        // zeros, or NaN
#pragma GCC ivdep
  for (std::int64_t t = 0; t < kTiles; ++t) {
    float low[4], high[4];
    for (std::int64_t j = 0; j < 4; ++j) {
      const float a = from[j * stride + t], b = from[(4 + j) * stride + t];
      const float c = from[(8 + j) * stride + t], d = from[(12 + j) * stride + t];
      low[j] = a + b + c;
      high[j] = b - c - d;
    }
    const float a = low[0] + low[1] + low[2] + more, b = low[1] - low[2] - low[3] + more;
    const float c = high[0] + high[1] + high[2] + more, d = high[1] - high[2] - high[3] + more;
    rows[0][2 * t] = a, rows[0][2 * t + 1] = b;
    rows[1][2 * t] = c, rows[1][2 * t + 1] = d;
    wrong[t] = (a + b + c + d) * 0.0f;
  }
  for_runs(m, block,
           [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t count,
               std::int64_t at) {
             float* const plane = to + (image * m.channels + channel) * m.height * m.width;
             const std::int64_t width = std::min(2 * count, m.width - 2 * column);
             for (std::int64_t i = 0; i < 2 && 2 * row + i < m.height; ++i) {
               std::memcpy(plane + (2 * row + i) * m.width + 2 * column, rows[i] + 2 * at,
                           static_cast<std::size_t>(width) * sizeof(float));
             }
           });
  float all = 0;
  for (std::int64_t t = 0; t < kTiles; ++t) all += wrong[t];
  return all == 0;
}

/// G g G^T of up to kTiles kernels, g[element][kernel]: to[p * stride + kernel].
inline void transform_kernels(const float (&g)[9][kTiles], std::int64_t count, float* to,
                              std::int64_t stride) {
#pragma GCC ivdep
  for (std::int64_t t = 0; t < count; ++t) {
    float lines[4][3];
    for (std::int64_t j = 0; j < 3; ++j) {
      const float a = g[j][t], b = g[3 + j][t], c = g[6 + j][t];
      lines[0][j] = a;
      lines[1][j] = 0.5f * (a + b + c);
      lines[2][j] = 0.5f * (a - b + c);
      lines[3][j] = c;
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      const float a = lines[i][0], b = lines[i][1], c = lines[i][2];
      to[4 * i * stride + t] = a;
      to[(4 * i + 1) * stride + t] = 0.5f * (a + b + c);
      to[(4 * i + 2) * stride + t] = 0.5f * (a - b + c);
      to[(4 * i + 3) * stride + t] = c;
    }
  }
}

/// G^T m G: the 9 elements of a kernel from m[p * stride].
inline void untransform_kernel(const float* m, std::int64_t stride, float* to) {
  float lines[3][4];
  for (std::int64_t j = 0; j < 4; ++j) {
    const float a = m[j * stride], b = m[(4 + j) * stride];
    const float c = m[(8 + j) * stride], d = m[(12 + j) * stride];
    lines[0][j] = a + 0.5f * (b + c);
    lines[1][j] = 0.5f * (b - c);
    lines[2][j] = 0.5f * (b + c) + d;
  }
  for (std::int64_t i = 0; i < 3; ++i) {
    const float a = lines[i][0], b = lines[i][1], c = lines[i][2], d = lines[i][3];
    to[3 * i] = a + 0.5f * (b + c);
    to[3 * i + 1] = 0.5f * (b - c);
    to[3 * i + 2] = 0.5f * (b + c) + d;
  }
}

}  // namespace metronome::METRONOME_ISA
