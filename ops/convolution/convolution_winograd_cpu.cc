// Convolutions with kernels of 3 x 3 by minimal filtering, F(2 x 2, 3 x 3) of Lavin and Gray
// (2016): 16 products for 4 elements of the result in place of 36.
//
//   4 x 4 of the input --B^T d B--> 16 numbers -+
//                                               +- products, summed over channels -A^T m A-> 2 x 2
//   3 x 3 of a kernel  --G g G^T--> 16 numbers -+
//
// A tile is 2 x 2 elements of the result; tiles are counted through rows, then images. The numbers
// of 64 tiles at each of the 16 positions p make a matrix:
//
//   output   sums[p] [K, 64] = kernels[p] [K, C] x parts[p] [C, 64]   for each block of 64 tiles
//   input    the same: a convolution of the gradient with turned kernels, K and C exchanged
//   weight   sums[p] [K, C] += grads[p] [K, 64] x parts[p]^T [64, C], then G^T m G
//
// Each sum of 64 terms is made apart and then added: one long sum would lose twice as many digits
// as oneDNN's, which adds short ones. A result that is not finite, where an infinity or a NaN would
// spread over its whole tile, is computed once more by products of what lies under the kernel.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "ops/convolution/convolution_cpu.h"
#include "ops/convolution/winograd_tiles.h"
#include "ops/cpu/isa/gemm_tile.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

using Result = ConvolutionTask::Result;

/// Elements in a row of what a tile kernel writes.
constexpr int kTileColumns = kMaxV * Simd<float>::kWidth;
constexpr int kTileRows = max_rows(kMaxV);
static_assert(kTiles % kTileColumns == 0);
/// Channels whose parts are transposed together, for a weight's gradient.
constexpr std::int64_t kTransposed = Simd<float>::kWidth;
/// Bytes of the blocks that a thread transforms before it multiplies them: more of them read the
/// sums from memory less often, and leave the core's caches.
constexpr std::int64_t kBlocksBytes = 2 << 20;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

/// Elements between two positions' matrices: a cache line more than they have. At strides of powers
/// of two all 16 would meet in the same few sets of a cache.
constexpr std::int64_t apart(std::int64_t elements) { return round_up(elements, 16) + 16; }

/// By rows - 1.
constexpr auto kTileKernels = tile_table<float, false, false>()[kMaxV - 1];

/// A convolution whose result is images.
struct WinogradImages {
  TiledImages from, to;
  const float* input;
  const float* weight;
  const float* bias;
  float* output;
  bool turned;     ///< kernels are turned, and weight is [C, K, 3, 3]
  float* kernels;  ///< at each position [K, C], rows `kernel_row` apart
  float* scratch;  ///< of each thread parts [C, kTiles] and sums [K, kTiles] at each position

  std::int64_t kernel_row() const { return apart(from.channels); }
  std::int64_t kernels_apart() const { return apart(to.channels * kernel_row()); }
  std::int64_t parts_apart() const { return apart(from.channels * kTiles); }
  std::int64_t sums_apart() const { return apart(to.channels * kTiles); }
  std::int64_t thread_elements() const { return kPositions * (parts_apart() + sums_apart()); }

  /// The kernels of outputs [begin, end), at all positions.
  void make_kernels(std::int64_t begin, std::int64_t end) const {
    const std::int64_t inputs = from.channels, outputs = to.channels;
    alignas(64) float g[9][kTiles];
    for (std::int64_t first = 0; first < inputs; first += kTiles) {
      const std::int64_t count = std::min(kTiles, inputs - first);
      for (std::int64_t k = begin; k < end; ++k) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t c = first + i;
          const float* const kernel = weight + 9 * (turned ? c * outputs + k : k * inputs + c);
          for (int e = 0; e < 9; ++e) g[e][i] = kernel[turned ? 8 - e : e];
        }
        transform_kernels(g, count, kernels + k * kernel_row() + first, kernels_apart());
      }
    }
  }

  /// False where an element of the block's result is not finite.
  bool run(std::int64_t block, float* parts) const {
    const std::int64_t inputs = from.channels, outputs = to.channels;
    float* const sums = parts + kPositions * parts_apart();
    for (std::int64_t c = 0; c < inputs; ++c) {
      transform_input(from, input, c, block, parts + c * kTiles, parts_apart());
    }
    Tile<float> t;
    t.lda = kernel_row(), t.ldb = kTiles, t.ldc = kTiles;
    for (std::int64_t p = 0; p < kPositions; ++p) {
      for (std::int64_t c = 0; c < inputs; c += kTiles) {
        t.k = std::min(kTiles, inputs - c);
        for (std::int64_t k = 0; k < outputs; k += kTileRows) {
          t.a = kernels + p * kernels_apart() + k * kernel_row() + c;
          for (std::int64_t column = 0; column < kTiles; column += kTileColumns) {
            t.b = parts + p * parts_apart() + c * kTiles + column;
            t.c = sums + p * sums_apart() + k * kTiles + column;
            t.more = c > 0 ? t.c : nullptr;
            kTileKernels[std::min<std::int64_t>(kTileRows, outputs - k) - 1](t);
          }
        }
      }
    }
    bool finite = true;
    for (std::int64_t k = 0; k < outputs; ++k) {
      finite &= transform_output(to, sums + k * kTiles, sums_apart(),
                                 bias != nullptr ? bias[k] : 0.0f, k, block, output);
    }
    return finite;
  }
};

/// The gradient of a convolution's weight. Each thread makes a part of it, some outputs by some
/// channels, of all tiles: it reads nothing that another has written, and no sum depends on their
/// number. In turn it transforms parts that others transform too; at two threads that is a few
/// hundredths of the products' time.
struct WinogradWeight {
  TiledImages x, g;
  const float* input;
  const float* grad;
  float* weight;
  float* scratch;  ///< sums [K, columns] at each position, then `thread_elements` of each thread
  std::int64_t outputs_at_once, columns_at_once;  ///< of a thread's part
  std::int64_t together;                          ///< blocks transformed before they are multiplied

  std::int64_t columns() const { return round_up(x.channels, kTileColumns); }
  std::int64_t sums_apart() const { return apart(g.channels * columns()); }
  std::int64_t parts_apart() const { return apart(kTiles * columns_at_once); }
  std::int64_t grads_apart() const { return apart(outputs_at_once * kTiles); }
  std::int64_t block_elements() const { return kPositions * (parts_apart() + grads_apart()); }
  std::int64_t untransposed_apart() const { return apart(kTransposed * kTiles); }
  std::int64_t thread_elements() const {
    return together * block_elements() + kPositions * untransposed_apart();
  }
  std::int64_t column_parts() const { return (columns() + columns_at_once - 1) / columns_at_once; }
  std::int64_t items() const {
    return (g.channels + outputs_at_once - 1) / outputs_at_once * column_parts();
  }

  /// parts[p][tile][channel] of a block, channels [begin, end).
  void transform_parts(std::int64_t block, std::int64_t begin, std::int64_t end, float* parts,
                       float* untransposed) const {
    for (std::int64_t first = begin; first < end; first += kTransposed) {
      for (std::int64_t c = 0; c < kTransposed; ++c) {
        float* const to = untransposed + c * kTiles;
        if (first + c < x.channels) {
          transform_input(x, input, first + c, block, to, untransposed_apart());
          continue;
        }
        for (std::int64_t p = 0; p < kPositions; ++p) {
          std::fill_n(to + p * untransposed_apart(), kTiles, 0.0f);
        }
      }
      for (std::int64_t p = 0; p < kPositions; ++p) {
        pack_transposed(untransposed + p * untransposed_apart(), kTiles, kTiles, kTransposed,
                        parts + p * parts_apart() + first - begin, columns_at_once);
      }
    }
  }

  /// One part. False where an element of it is not finite.
  bool run(std::int64_t item, float* own) const {
    float* const untransposed = own + together * block_elements();
    const std::int64_t k_begin = item / column_parts() * outputs_at_once;
    const std::int64_t k_end = std::min(k_begin + outputs_at_once, g.channels);
    const std::int64_t c_begin = item % column_parts() * columns_at_once;
    const std::int64_t c_end = std::min(c_begin + columns_at_once, columns());
    Tile<float> t;
    t.lda = kTiles, t.ldb = columns_at_once, t.ldc = columns(), t.k = kTiles;
    for (std::int64_t first = 0; first < x.blocks(); first += together) {
      const std::int64_t count = std::min(together, x.blocks() - first);
      for (std::int64_t i = 0; i < count; ++i) {
        float* const parts = own + i * block_elements();
        transform_parts(first + i, c_begin, c_end, parts, untransposed);
        float* const grads = parts + kPositions * parts_apart();
        for (std::int64_t k = k_begin; k < k_end; ++k) {
          transform_grad(g, grad, k, first + i, grads + (k - k_begin) * kTiles, grads_apart());
        }
      }
      for (std::int64_t p = 0; p < kPositions; ++p) {
        const float* const parts = own + p * parts_apart();
        const float* const grads = own + kPositions * parts_apart() + p * grads_apart();
        for (std::int64_t c = c_begin; c < c_end; c += kTileColumns) {
          for (std::int64_t k = k_begin; k < k_end; k += kTileRows) {
            t.c = scratch + p * sums_apart() + k * columns() + c;
            for (std::int64_t i = 0; i < count; ++i) {
              t.a = grads + i * block_elements() + (k - k_begin) * kTiles;
              t.b = parts + i * block_elements() + c - c_begin;
              t.more = first + i > 0 ? t.c : nullptr;
              kTileKernels[std::min<std::int64_t>(kTileRows, k_end - k) - 1](t);
            }
          }
        }
      }
    }
    float wrong = 0;  // or NaN
    for (std::int64_t k = k_begin; k < k_end; ++k) {
      for (std::int64_t c = c_begin; c < std::min(c_end, x.channels); ++c) {
        float* const to = weight + (k * x.channels + c) * 9;
        untransform_kernel(scratch + k * columns() + c, sums_apart(), to);
        for (int e = 0; e < 9; ++e) wrong += to[e] * 0.0f;
      }
    }
    return wrong == 0;
  }
};

TiledImages over(const ConvolutionSizes& s, bool output, const ConvolutionSizes::Each& tiled,
                 std::int64_t low_y, std::int64_t low_x) {
  const ConvolutionSizes::Each& size = output ? s.output : s.input;
  return {s.images,           output ? s.out : s.in, size[1], size[2],
          (tiled[1] + 1) / 2, (tiled[2] + 1) / 2,    low_y,   low_x};
}

WinogradImages images_of(const ConvolutionTask& task, const ConvolutionData& data) {
  const ConvolutionSizes& s = task.sizes;
  const bool turned = task.result == Result::input;
  const ConvolutionSizes::Each& tiled = turned ? s.input : s.output;
  WinogradImages w{};
  w.from = turned ? over(s, true, tiled, 2 - s.low[1], 2 - s.low[2])
                  : over(s, false, tiled, s.low[1], s.low[2]);
  w.to = over(s, !turned, tiled, 0, 0);
  w.input = static_cast<const float*>(turned ? data.output : data.input);
  w.weight = static_cast<const float*>(data.weight);
  w.bias = static_cast<const float*>(data.bias);
  w.output = static_cast<float*>(turned ? data.input : data.output);
  w.turned = turned;
  w.kernels = static_cast<float*>(data.scratch);
  w.scratch = w.kernels + kPositions * w.kernels_apart();
  return w;
}

/// Threads share out outputs and channels such that each transforms as few as it can.
WinogradWeight weight_of(const ConvolutionTask& task, const ConvolutionData& data, int threads) {
  const ConvolutionSizes& s = task.sizes;
  WinogradWeight w{};
  w.x = over(s, false, s.output, s.low[1], s.low[2]);
  w.g = over(s, true, s.output, 0, 0);
  w.input = static_cast<const float*>(data.input);
  w.grad = static_cast<const float*>(data.output);
  w.weight = static_cast<float*>(data.weight);
  w.scratch = static_cast<float*>(data.scratch);
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (int shares = 1; shares <= threads; ++shares) {
    if (threads % shares != 0) continue;
    const std::int64_t outputs = part_size(shares, s.out, kTileRows);
    const std::int64_t columns = part_size(threads / shares, w.columns(), kTileColumns);
    if (outputs + columns >= fewest) continue;
    fewest = outputs + columns;
    w.outputs_at_once = outputs, w.columns_at_once = columns;
  }
  const std::int64_t bytes = w.block_elements() * static_cast<std::int64_t>(sizeof(float));
  w.together = std::clamp<std::int64_t>(kBlocksBytes / bytes, 1, w.x.blocks());
  return w;
}

std::size_t own_scratch(const ConvolutionTask& task, int threads) {
  std::int64_t elements = 0;
  if (task.result == Result::weight) {
    const WinogradWeight w = weight_of(task, {}, threads);
    elements = kPositions * w.sums_apart() + threads * w.thread_elements();
  } else {
    const WinogradImages w = images_of(task, {});
    elements = kPositions * w.kernels_apart() + threads * w.thread_elements();
  }
  return static_cast<std::size_t>(elements) * sizeof(float);
}

bool run_images(const WinogradImages& w, int threads) {
  parallel_for(threads, w.to.channels, kTransposed, [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += kTransposed) {
      w.make_kernels(begin, std::min(begin + kTransposed, end));
    }
  });
  std::atomic<bool> finite = true;
  parallel_for(threads, w.to.blocks(), 1, [&](std::int64_t begin, std::int64_t end, int part) {
    for (std::int64_t block = begin; block < end; ++block) {
      if (!w.run(block, w.scratch + part * w.thread_elements())) finite = false;
    }
  });
  return finite;
}

bool run_weight(const WinogradWeight& w, int threads) {
  std::atomic<bool> finite = true;
  float* const own = w.scratch + kPositions * w.sums_apart();
  parallel_for(threads, w.items(), 1, [&](std::int64_t begin, std::int64_t end, int part) {
    for (std::int64_t item = begin; item < end; ++item) {
      if (!w.run(item, own + part * w.thread_elements())) finite = false;
    }
  });
  return finite;
}

}  // namespace

bool offers_winograd_convolution(const ConvolutionTask& task) {
  constexpr std::int64_t kLeastChannels = 16;
  const ConvolutionSizes& s = task.sizes;
  const ConvolutionSizes::Each kernel = {1, 3, 3}, one = {1, 1, 1};
  return task.element == f32 && s.spatial == 2 && s.groups == 1 && s.kernel == kernel &&
         s.stride == one && s.dilation == one && s.images > 0 &&
         std::min(s.in, s.out) >= kLeastChannels;
}

std::size_t winograd_convolution_scratch(const ConvolutionTask& task, int threads) {
  return std::max(own_scratch(task, threads), product_convolution_scratch(task, threads));
}

CpuKernel bind_winograd_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                    int threads) {
  const auto otherwise =
      std::make_shared<const CpuKernel>(bind_product_convolution(task, data, threads));
  if (task.result == Result::weight) {
    return CpuKernel([w = weight_of(task, data, threads), threads, otherwise] {
      if (!run_weight(w, threads)) (*otherwise)();
    });
  }
  return CpuKernel([w = images_of(task, data), threads, otherwise] {
    if (!run_images(w, threads)) (*otherwise)();
  });
}

}  // namespace metronome::METRONOME_ISA
