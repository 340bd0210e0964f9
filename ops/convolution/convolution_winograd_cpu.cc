// Convolutions by minimal filtering (winograd_cpu.h): kernels of 3 x 3 without stride by 16
// products for each 2 x 2 elements of the result in place of 36, of 4 x 4 with a stride of 2 by 36
// in place of 64.
//
//   4 x 4 of the input --B^T d B--> 16 numbers -+
//                                               +- products, summed over channels -A^T m A-> 2 x 2
//   3 x 3 of a kernel  --G g G^T--> 16 numbers -+
//
// A stride of 2 splits images and kernels into phases, by even and odd rows and columns: each phase
// of a 4 x 4 kernel has 2 x 2 elements, which step over its own phase of the image one by one.
//
// A tile is 2 x 2 elements of the result; tiles are counted through rows, then images. The numbers
// of 64 tiles at each position p of a tile make a matrix. With K outputs and C channels, in P
// phases:
//
//   output   sums[p] [K, 64] = kernels[p] [K, P C] x parts[p] [P C, 64], block by block
//   input    the same for each phase of the result, with turned kernels, K and C exchanged
//   weight   sums[p] [K, P C] += grads[p] [K, 64] x parts[p]^T [64, P C], then G^T m G
//
// Each sum of 64 terms is made apart and then added: the error of one long sum would be twice that
// of oneDNN's, which adds short ones. A result that is not finite, where an infinity or a NaN would
// spread over its whole tile, is computed once more by products of what lies under the kernel.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "ops/convolution/convolution_cpu.h"
#include "ops/convolution/winograd_cpu.h"
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
constexpr std::int64_t padded_step(std::int64_t elements) { return round_up(elements, 16) + 16; }

/// By rows - 1.
constexpr auto kTileKernels = tile_table<float, false, false>()[kMaxV - 1];

/// A task's stride, and taps of one phase of its kernel.
template <class F>
struct Phases {
  static constexpr int stride = F::taps == 3 ? 1 : 2;
  static constexpr int count = stride * stride;
  static constexpr int width = stride * F::taps;  ///< of the whole kernel
  /// The element of the whole kernel at (i, j) of a phase.
  static std::int64_t element(int phase, int i, int j) {
    return (stride * i + phase / stride) * width + stride * j + phase % stride;
  }
};

/// The input as tiles of the output read one phase of it.
template <class F>
TiledImages read_input(const ConvolutionSizes& s, int phase) {
  constexpr int stride = Phases<F>::stride;
  return {s.images,
          s.in,
          s.input[1],
          s.input[2],
          (s.output[1] + 1) / 2,
          (s.output[2] + 1) / 2,
          stride,
          s.low[1] - phase / stride,
          s.low[2] - phase % stride};
}

/// The output in tiles.
TiledImages tiled_output(const ConvolutionSizes& s) {
  return {s.images, s.out, s.output[1], s.output[2], (s.output[1] + 1) / 2, (s.output[2] + 1) / 2};
}

/// A convolution whose result is images: `inputs` x `outputs` matrices for each phase of the
/// result.
template <class F>
struct WinogradImages {
  static constexpr std::int64_t positions = kPositions<F>;
  /// A phase of the result, and the phases that are read for it.
  struct PhaseImages {
    TiledImages from[Phases<F>::count], to;
  };
  PhaseImages passes[Phases<F>::count];
  int pass_count, read_count;  ///< phases of the result, and of what is read: one of them is 1
  std::int64_t channels;       ///< of what is read
  std::int64_t outputs;
  const float* input;
  const float* weight;
  const float* bias;
  float* output;
  bool turned;  ///< kernels are turned, and weight is [channels, outputs, ...]
  /// They are read front to back: [pass, position, inputs / kTiles, outputs, kTiles].
  float* kernels;
  /// Each thread has parts [inputs, kTiles] and sums [outputs, kTiles] at each position.
  float* scratch;

  std::int64_t inputs() const { return read_count * channels; }
  std::int64_t kernels_step() const { return padded_step(round_up(inputs(), kTiles) * outputs); }
  /// Input c of output k among the kernels of one position.
  std::int64_t kernel_at(std::int64_t k, std::int64_t c) const {
    return (c / kTiles * outputs + k) * kTiles + c % kTiles;
  }
  std::int64_t kernel_elements() const { return pass_count * positions * kernels_step(); }
  std::int64_t parts_step() const { return padded_step(inputs() * kTiles); }
  std::int64_t sums_step() const { return padded_step(outputs * kTiles); }
  std::int64_t thread_elements() const { return positions * (parts_step() + sums_step()); }
  /// The blocks of the largest pass: phases of an odd size differ by a row or a column.
  std::int64_t blocks() const {
    std::int64_t most = 0;
    for (int pass = 0; pass < pass_count; ++pass) {
      most = std::max(most, passes[pass].to.blocks());
    }
    return most;
  }

  /// The kernels of outputs [begin, end), at all positions.
  void make_kernels(std::int64_t begin, std::int64_t end) const {
    constexpr int taps = F::taps, whole = Phases<F>::width * Phases<F>::width;
    alignas(64) float g[taps * taps][kTiles];
    for (int phase = 0; phase < Phases<F>::count; ++phase) {
      const std::int64_t pass = turned ? phase : 0, from = turned ? 0 : phase * channels;
      float* const to = kernels + pass * positions * kernels_step();
      for (std::int64_t first = 0, count = 0; first < channels; first += count) {
        count = std::min(kTiles - (from + first) % kTiles, channels - first);
        for (std::int64_t k = begin; k < end; ++k) {
          for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t c = first + i;
            const float* const kernel =
                weight + whole * (turned ? c * outputs + k : k * channels + c);
            for (int e = 0; e < taps * taps; ++e) {
              const int tap = turned ? taps * taps - 1 - e : e;
              g[e][i] = kernel[Phases<F>::element(phase, tap / taps, tap % taps)];
            }
          }
          transform_kernels<F>(g, count, to + kernel_at(k, from + first), kernels_step());
        }
      }
    }
  }

  /// False if an element of the block's result is not finite.
  bool run(int pass, std::int64_t block, float* parts) const {
    const PhaseImages& phase = passes[pass];
    if (block >= phase.to.blocks()) return true;
    float* const sums = parts + positions * parts_step();
    for (int read = 0; read < read_count; ++read) {
      for (std::int64_t c = 0; c < channels; ++c) {
        transform_input<F>(phase.from[read], input, c, block,
                           parts + (read * channels + c) * kTiles, parts_step());
      }
    }
    Tile<float> t;
    t.lda = t.ldb = t.ldc = kTiles;
    for (std::int64_t p = 0; p < positions; ++p) {
      const float* const kernel = kernels + (pass * positions + p) * kernels_step();
      for (std::int64_t c = 0; c < inputs(); c += kTiles) {
        t.k = std::min(kTiles, inputs() - c);
        for (std::int64_t k = 0; k < outputs; k += kTileRows) {
          t.a = kernel + kernel_at(k, c);
          for (std::int64_t column = 0; column < kTiles; column += kTileColumns) {
            t.b = parts + p * parts_step() + c * kTiles + column;
            t.c = sums + p * sums_step() + k * kTiles + column;
            t.more = c > 0 ? t.c : nullptr;
            kTileKernels[std::min<std::int64_t>(kTileRows, outputs - k) - 1](t);
          }
        }
      }
    }
    bool finite = true;
    for (std::int64_t k = 0; k < outputs; ++k) {
      finite &= transform_result<F>(phase.to, sums + k * kTiles, sums_step(),
                                    bias != nullptr ? bias[k] : 0.0f, k, block, output);
    }
    return finite;
  }
};

/// The gradient of a convolution's weight. Each thread makes a part of it, some outputs by some
/// channels, of all tiles: it reads nothing that another has written, and no sum depends on their
/// number. In turn it transforms parts that others transform too.
template <class F>
struct WinogradWeight {
  static constexpr std::int64_t positions = kPositions<F>;
  TiledImages x[Phases<F>::count], g;
  const float* input;
  const float* grad;
  float* weight;
  float* scratch;  ///< sums [K, columns] at each position, then `thread_elements` of each thread
  std::int64_t outputs_at_once, columns_at_once;  ///< of a thread's part
  std::int64_t together;                          ///< blocks transformed before they are multiplied

  std::int64_t channels() const { return Phases<F>::count * x[0].channels; }  ///< phase by phase
  std::int64_t columns() const { return round_up(channels(), kTileColumns); }
  std::int64_t sums_step() const { return padded_step(g.channels * columns()); }
  std::int64_t parts_step() const { return padded_step(kTiles * columns_at_once); }
  std::int64_t grads_step() const { return padded_step(outputs_at_once * kTiles); }
  std::int64_t block_elements() const { return positions * (parts_step() + grads_step()); }
  std::int64_t untransposed_step() const { return padded_step(kTransposed * kTiles); }
  std::int64_t thread_elements() const {
    return together * block_elements() + positions * untransposed_step();
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
        const std::int64_t phase = (first + c) / x[0].channels;
        if (phase < Phases<F>::count) {
          transform_input<F>(x[phase], input, (first + c) % x[0].channels, block, to,
                             untransposed_step());
          continue;
        }
        for (std::int64_t p = 0; p < positions; ++p) {
          std::fill_n(to + p * untransposed_step(), kTiles, 0.0f);
        }
      }
      for (std::int64_t p = 0; p < positions; ++p) {
        pack_transposed(untransposed + p * untransposed_step(), kTiles, kTiles, kTransposed,
                        parts + p * parts_step() + first - begin, columns_at_once);
      }
    }
  }

  /// One part. False if an element of it is not finite.
  bool run(std::int64_t item, float* own) const {
    float* const untransposed = own + together * block_elements();
    const std::int64_t k_begin = item / column_parts() * outputs_at_once;
    const std::int64_t k_end = std::min(k_begin + outputs_at_once, g.channels);
    const std::int64_t c_begin = item % column_parts() * columns_at_once;
    const std::int64_t c_end = std::min(c_begin + columns_at_once, columns());
    Tile<float> t;
    t.lda = kTiles, t.ldb = columns_at_once, t.ldc = columns(), t.k = kTiles;
    for (std::int64_t first = 0; first < g.blocks(); first += together) {
      const std::int64_t count = std::min(together, g.blocks() - first);
      for (std::int64_t i = 0; i < count; ++i) {
        float* const parts = own + i * block_elements();
        transform_parts(first + i, c_begin, c_end, parts, untransposed);
        float* const grads = parts + positions * parts_step();
        for (std::int64_t k = k_begin; k < k_end; ++k) {
          transform_grad<F>(g, grad, k, first + i, grads + (k - k_begin) * kTiles, grads_step());
        }
      }
      for (std::int64_t p = 0; p < positions; ++p) {
        const float* const parts = own + p * parts_step();
        const float* const grads = own + positions * parts_step() + p * grads_step();
        for (std::int64_t c = c_begin; c < c_end; c += kTileColumns) {
          for (std::int64_t k = k_begin; k < k_end; k += kTileRows) {
            t.c = scratch + p * sums_step() + k * columns() + c;
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
    return finish(k_begin, k_end, c_begin, std::min(c_end, channels()));
  }

  bool finish(std::int64_t k_begin, std::int64_t k_end, std::int64_t c_begin,
              std::int64_t c_end) const {
    constexpr int whole = Phases<F>::width * Phases<F>::width;
    float wrong = 0;  // or NaN
    for (std::int64_t k = k_begin; k < k_end; ++k) {
      for (std::int64_t c = c_begin; c < c_end; ++c) {
        float kernel[F::taps][F::taps];
        transform_weight<F>(scratch + k * columns() + c, sums_step(), kernel);
        const auto phase = static_cast<int>(c / x[0].channels);
        float* const to = weight + (k * x[0].channels + c % x[0].channels) * whole;
        for (int i = 0; i < F::taps; ++i) {
          for (int j = 0; j < F::taps; ++j) {
            to[Phases<F>::element(phase, i, j)] = kernel[i][j];
            wrong += kernel[i][j] * 0.0f;
          }
        }
      }
    }
    return wrong == 0;
  }
};

template <class F>
WinogradImages<F> images_of(const ConvolutionTask& task, const ConvolutionData& data) {
  constexpr int stride = Phases<F>::stride, count = Phases<F>::count;
  const ConvolutionSizes& s = task.sizes;
  WinogradImages<F> w{};
  w.turned = task.result == Result::input;
  w.pass_count = w.turned ? count : 1;
  w.read_count = w.turned ? 1 : count;
  w.channels = w.turned ? s.out : s.in;
  w.outputs = w.turned ? s.in : s.out;
  w.input = static_cast<const float*>(w.turned ? data.output : data.input);
  w.weight = static_cast<const float*>(data.weight);
  w.bias = static_cast<const float*>(data.bias);
  w.output = static_cast<float*>(w.turned ? data.input : data.output);
  w.kernels = static_cast<float*>(data.scratch);
  w.scratch = w.kernels + w.kernel_elements();
  if (!w.turned) {
    for (int phase = 0; phase < count; ++phase) {
      w.passes[0].from[phase] = read_input<F>(s, phase);
    }
    w.passes[0].to = tiled_output(s);
    return w;
  }
  // Element i of the input is element v of phase a, where i + low = stride v + a, and reads the
  // output's elements v, v - 1, ... The phase begins at i = first.
  for (int phase = 0; phase < count; ++phase) {
    TiledImages from = tiled_output(s);
    TiledImages to{s.images, s.in, s.input[1], s.input[2], 0, 0, stride, 0, 0};
    const auto along = [&](std::size_t d, int a, std::int64_t& tiles, std::int64_t& read_low,
                           std::int64_t& write_low) {
      const std::int64_t first = ((a - s.low[d]) % stride + stride) % stride;
      const std::int64_t elements = (s.input[d] - first + stride - 1) / stride;
      tiles = (elements + 1) / 2;
      read_low = F::taps - 1 - (first + s.low[d] - a) / stride;
      write_low = -first;
    };
    along(1, phase / stride, to.rows, from.low_y, to.low_y);
    along(2, phase % stride, to.columns, from.low_x, to.low_x);
    from.rows = to.rows, from.columns = to.columns;
    w.passes[phase].from[0] = from, w.passes[phase].to = to;
  }
  return w;
}

/// Threads share out outputs and channels such that each transforms as few as it can.
template <class F>
WinogradWeight<F> weight_of(const ConvolutionTask& task, const ConvolutionData& data, int threads) {
  const ConvolutionSizes& s = task.sizes;
  WinogradWeight<F> w{};
  for (int phase = 0; phase < Phases<F>::count; ++phase) w.x[phase] = read_input<F>(s, phase);
  w.g = tiled_output(s);
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
  w.together = std::clamp<std::int64_t>(kBlocksBytes / bytes, 1, w.g.blocks());
  return w;
}

template <class F>
std::size_t winograd_scratch(const ConvolutionTask& task, int threads) {
  std::int64_t elements = 0;
  if (task.result == Result::weight) {
    const auto w = weight_of<F>(task, {}, threads);
    elements = w.positions * w.sums_step() + threads * w.thread_elements();
  } else {
    const auto w = images_of<F>(task, {});
    elements = w.kernel_elements() + threads * w.thread_elements();
  }
  return static_cast<std::size_t>(elements) * sizeof(float);
}

template <class F>
bool run(const WinogradImages<F>& w, int threads) {
  parallel_for(threads, w.outputs, kTransposed, [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += kTransposed) {
      w.make_kernels(begin, std::min(begin + kTransposed, end));
    }
  });
  std::atomic<bool> finite = true;
  const std::int64_t items = w.blocks() * w.pass_count;
  parallel_for(threads, items, 1, [&](std::int64_t begin, std::int64_t end, int part) {
    for (std::int64_t i = begin; i < end; ++i) {
      const int pass = static_cast<int>(i % w.pass_count);
      if (!w.run(pass, i / w.pass_count, w.scratch + part * w.thread_elements())) finite = false;
    }
  });
  return finite;
}

template <class F>
bool run(const WinogradWeight<F>& w, int threads) {
  std::atomic<bool> finite = true;
  float* const own = w.scratch + w.positions * w.sums_step();
  parallel_for(threads, w.items(), 1, [&](std::int64_t begin, std::int64_t end, int part) {
    for (std::int64_t item = begin; item < end; ++item) {
      if (!w.run(item, own + part * w.thread_elements())) finite = false;
    }
  });
  return finite;
}

/// f(WinogradTransform) of a task that is offered.
template <class F>
auto with_filtering(const ConvolutionTask& task, const F& f) {
  if (task.sizes.stride[2] == 2) return f(WinogradTransform<2>());
  return f(WinogradTransform<3>());
}

}  // namespace

bool offers_winograd_convolution(const ConvolutionTask& task) {
  constexpr std::int64_t kLeastChannels = 16;
  // Tiles of fewer elements are mostly padding: nothing is won, and gradients of images of 4 x 4
  // and 5 x 5, or from 3 x 3 places, are up to 3 times as far from f64 as libtorch's.
  constexpr std::int64_t kLeastPoints = 36, kLeastPlaces = 16;
  using Each = ConvolutionSizes::Each;
  const ConvolutionSizes& s = task.sizes;
  const bool three = s.kernel == Each{1, 3, 3} && s.stride == Each{1, 1, 1};
  const bool four = s.kernel == Each{1, 4, 4} && s.stride == Each{1, 2, 2};
  return task.element == f32 && s.spatial == 2 && s.groups == 1 && (three || four) &&
         s.dilation == Each{1, 1, 1} && s.images > 0 && s.points() >= kLeastPoints &&
         s.places() >= kLeastPlaces && std::min(s.in, s.out) >= kLeastChannels;
}

std::size_t winograd_convolution_scratch(const ConvolutionTask& task, int threads) {
  const std::size_t own = with_filtering(
      task, [&](auto filtering) { return winograd_scratch<decltype(filtering)>(task, threads); });
  return std::max(own, product_convolution_scratch(task, threads));
}

CpuKernel bind_winograd_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                    int threads) {
  const auto otherwise =
      std::make_shared<const CpuKernel>(bind_product_convolution(task, data, threads));
  const auto kernel = [&](const auto& winograd) {
    return CpuKernel([winograd, threads, otherwise] {
      if (!run(winograd, threads)) (*otherwise)();
    });
  };
  return with_filtering(task, [&](auto filtering) {
    using F = decltype(filtering);
    if (task.result == Result::weight) return kernel(weight_of<F>(task, data, threads));
    return kernel(images_of<F>(task, data));
  });
}

}  // namespace metronome::METRONOME_ISA
