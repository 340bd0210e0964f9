// Convolutions as products of matrices (im2col; Chellapilla, Puri, Simard 2006), in blocks that fit
// the cache. The numbers under the kernel make a matrix, a column for each place:
//
//   input [4, 4]         columns, kernel [2, 2], stride 2
//    0  1  2  3          place    0   1   2   3
//    4  5  6  7          tap 0    0   2   8  10        y = weight columns
//    8  9 10 11          tap 1    1   3   9  11        columns = weight^T y, added to x
//   12 13 14 15          tap 2    4   6  12  14        weight gradient = y rows, added up over
//                        tap 3    5   7  13  15        images; rows is columns transposed
//
// A thread has one block of the matrix at a time, in its scratch. Each tap's numbers are copied, or
// added back, in runs of places that lie in one row of the output (`for_runs`). Threads share out
// images, groups and blocks that are not summed over; one thread takes the blocks of a sum in turn.
// Blocks, and with them each sum's order, follow from the sizes alone. For the output of a
// pointwise kernel nothing is copied: the input is the matrix.
#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "ops/convolution/convolution_cpu.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Bytes that a block aims at: with what it is multiplied by it stays in a core's second cache. A
/// larger block leaves that cache; smaller ones make more products, of fewer columns or channels.
/// Blocks of very many channels x taps are larger: an output's has kColumns places, if there are.
constexpr std::int64_t kBlockBytes = 256 * 1024;
/// Places; blocks have multiples of so many while there are enough. The widest panel of the own
/// product (ops/cpu/isa/gemm_tile.h) has 8, 16, 32 or 64 columns: so its panels are whole.
constexpr std::int64_t kColumns = 64;

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

/// Places and channels of a block.
struct BlockSizes {
  std::int64_t places = 0, channels = 0;
};

BlockSizes blocks_of(const ConvolutionTask& task) {
  const ConvolutionSizes& s = task.sizes;
  const std::int64_t elements = kBlockBytes / static_cast<std::int64_t>(size_of(task.element));
  const std::int64_t all = s.places();
  if (task.result == ConvolutionTask::Result::output) {
    const std::int64_t columns = elements / (s.in * s.taps()) / kColumns * kColumns;
    return {std::clamp(columns, std::min(kColumns, all), all), s.in};
  }
  const std::int64_t places = std::min<std::int64_t>(all, 4 * kColumns);
  const std::int64_t fitting = std::max<std::int64_t>(1, elements / (s.taps() * places));
  // Some blocks more than threads, so that these are busy where there is one image or one group.
  return {places, std::min(fitting, parts(s.in, 8))};
}

/// Elements of one thread's block, in whole lines of the cache.
std::int64_t block_elements(const ConvolutionTask& task) {
  const BlockSizes b = blocks_of(task);
  return (b.places * b.channels * task.sizes.taps() + 15) / 16 * 16;
}

/// f(from, to, count) for each run of places among [first, last) that lies in one row of the
/// output, as the kernel's element `tap` sees it: `from` is where the input lies under the run's
/// first place, counted in its plane, or -1 where the run lies beyond the input; `to` counts places
/// from `first`.
template <class F>
void for_runs(const ConvolutionSizes& s, std::int64_t tap, std::int64_t first, std::int64_t last,
              const F& f) {
  const std::int64_t e = tap % s.kernel[2], b = tap / s.kernel[2] % s.kernel[1];
  const std::int64_t a = tap / s.kernel[2] / s.kernel[1];
  const std::int64_t shift = e * s.dilation[2] - s.low[2], step = s.stride[2];
  for (std::int64_t place = first; place < last;) {
    const std::int64_t row = place / s.output[2], o = place % s.output[2];
    const std::int64_t end = std::min(s.output[2], o + last - place), to = place - first;
    const std::int64_t z = row / s.output[1] * s.stride[0] + a * s.dilation[0] - s.low[0];
    const std::int64_t v = row % s.output[1] * s.stride[1] + b * s.dilation[1] - s.low[1];
    place += end - o;
    if (z < 0 || z >= s.input[0] || v < 0 || v >= s.input[1]) {
      f(-1, to, end - o);
      continue;
    }
    // Places [begin, behind) of the run lie on the input.
    const std::int64_t begin = std::clamp(shift < 0 ? parts(-shift, step) : 0, o, end);
    const std::int64_t beyond = s.input[2] - shift;
    const std::int64_t behind = std::clamp(beyond > 0 ? parts(beyond, step) : 0, begin, end);
    if (begin > o) f(-1, to, begin - o);
    if (behind > begin) {
      f((z * s.input[1] + v) * s.input[2] + begin * step + shift, to + begin - o, behind - begin);
    }
    if (end > behind) f(-1, to + behind - o, end - behind);
  }
}

template <class T>
struct ProductConvolution {
  ConvolutionTask task;
  ConvolutionSizes s;
  BlockSizes blocks;
  std::int64_t block_size;  ///< of one thread's scratch
  T* input;
  T* weight;
  T* output;
  const T* bias;
  T* scratch;
  bool copies;  ///< false where the input is the matrix
  /// [the last block of channels][the last block of places]
  std::array<std::array<OwnProduct, 2>, 2> products;

  ProductConvolution(const ConvolutionTask& t, const ConvolutionData& data)
      : task(t),
        s(t.sizes),
        blocks(blocks_of(t)),
        block_size(block_elements(t)),
        input(static_cast<T*>(data.input)),
        weight(static_cast<T*>(data.weight)),
        output(static_cast<T*>(data.output)),
        bias(static_cast<const T*>(data.bias)),
        scratch(static_cast<T*>(data.scratch)),
        copies(t.result != ConvolutionTask::Result::output || !s.pointwise()) {
    for (const bool last_channels : {false, true}) {
      for (const bool last_places : {false, true}) {
        const auto size = [](std::int64_t all, std::int64_t block, bool last) {
          return last ? all - (parts(all, block) - 1) * block : block;
        };
        products[last_channels][last_places] =
            OwnProduct(product(size(s.in, blocks.channels, last_channels),
                               size(s.places(), blocks.places, last_places)));
      }
    }
  }

  std::int64_t reads() const { return s.in * s.taps(); }
  std::int64_t channel_blocks() const { return parts(s.in, blocks.channels); }
  std::int64_t place_blocks() const { return parts(s.places(), blocks.places); }

  Gemm product(std::int64_t channels, std::int64_t places) const {
    Gemm g;
    g.element = task.element;
    switch (task.result) {
      case ConvolutionTask::Result::output:  // y = weight columns
        g.m = s.out, g.n = places, g.k = reads();
        g.lda = reads(), g.ldb = copies ? places : s.places(), g.ldc = s.places();
        g.addend = task.bias;
        break;
      case ConvolutionTask::Result::input:  // columns = weight^T y
        g.m = channels * s.taps(), g.n = places, g.k = s.out;
        g.transpose_a = true;
        g.lda = reads(), g.ldb = s.places(), g.ldc = places;
        break;
      case ConvolutionTask::Result::weight:  // weight += y rows
        g.m = s.out, g.n = channels * s.taps(), g.k = places;
        g.lda = s.places(), g.ldb = g.n, g.ldc = reads();
        g.addend = true;
        break;
    }
    return g;
  }

  /// Channels of a group, or places: those of block `block` of `size`.
  struct Part {
    std::int64_t begin, end;
    bool last;
    std::int64_t count() const { return end - begin; }
  };
  Part channels_of(std::int64_t block) const { return part(s.in, blocks.channels, block); }
  Part places_of(std::int64_t block) const { return part(s.places(), blocks.places, block); }
  static Part part(std::int64_t all, std::int64_t size, std::int64_t block) {
    return {block * size, std::min(all, (block + 1) * size), (block + 1) * size >= all};
  }

  /// One block of places of one group of an image.
  void forward(std::int64_t item, T* block) const {
    const Part places = places_of(item % place_blocks());
    const std::int64_t map = item / place_blocks(), group = map % s.groups;
    const T* const x = input + map * s.in * s.points();
    T* const y = output + map * s.out * s.places() + places.begin;
    if (copies) {
      for (std::int64_t row = 0; row < reads(); ++row) {
        const T* const plane = x + row / s.taps() * s.points();
        T* const to = block + row * places.count();
        for_runs(s, row % s.taps(), places.begin, places.end,
                 [&](std::int64_t from, std::int64_t at, std::int64_t count) {
                   copy_run(plane, from, to + at, 1, count);
                 });
      }
    }
    if (bias) {
      for (std::int64_t k = 0; k < s.out; ++k) {
        std::fill_n(y + k * s.places(), places.count(), bias[group * s.out + k]);
      }
    }
    products[1][places.last](weight + group * s.out * reads(), copies ? block : x + places.begin,
                             bias ? y : nullptr, y);
  }

  /// One block of channels of one group of an image.
  void transposed(std::int64_t item, T* block) const {
    const Part channels = channels_of(item % channel_blocks());
    const std::int64_t map = item / channel_blocks(), group = map % s.groups;
    T* const x = input + (map * s.in + channels.begin) * s.points();
    for (std::int64_t c = 0; c < channels.count(); ++c) {
      std::fill_n(x + c * s.points(), s.points(),
                  bias ? bias[group * s.in + channels.begin + c] : T(0));
    }
    const T* const w = weight + group * s.out * reads() + channels.begin * s.taps();
    const T* const y = output + map * s.out * s.places();
    for (std::int64_t p = 0; p < place_blocks(); ++p) {
      const Part places = places_of(p);
      products[channels.last][places.last](w, y + places.begin, nullptr, block);
      for (std::int64_t row = 0; row < channels.count() * s.taps(); ++row) {
        T* const plane = x + row / s.taps() * s.points();
        const T* const from = block + row * places.count();
        for_runs(s, row % s.taps(), places.begin, places.end,
                 [&](std::int64_t to, std::int64_t at, std::int64_t count) {
                   add_run(from + at, plane, to, count);
                 });
      }
    }
  }

  /// One block of channels of one group, of all images.
  void weight_grad(std::int64_t item, T* block) const {
    const Part channels = channels_of(item % channel_blocks());
    const std::int64_t group = item / channel_blocks(), width = channels.count() * s.taps();
    T* const w = weight + group * s.out * reads() + channels.begin * s.taps();
    for (std::int64_t k = 0; k < s.out; ++k) std::fill_n(w + k * reads(), width, T(0));
    for (std::int64_t image = 0; image < s.images; ++image) {
      const std::int64_t map = image * s.groups + group;
      const T* const x = input + (map * s.in + channels.begin) * s.points();
      const T* const y = output + map * s.out * s.places();
      for (std::int64_t p = 0; p < place_blocks(); ++p) {
        const Part places = places_of(p);
        for (std::int64_t column = 0; column < width; ++column) {
          const T* const plane = x + column / s.taps() * s.points();
          for_runs(s, column % s.taps(), places.begin, places.end,
                   [&](std::int64_t from, std::int64_t at, std::int64_t count) {
                     copy_run(plane, from, block + at * width + column, width, count);
                   });
        }
        products[channels.last][places.last](y + places.begin, block, w, w);
      }
    }
  }

  void copy_run(const T* plane, std::int64_t from, T* to, std::int64_t to_step,
                std::int64_t count) const {
    const std::int64_t step = s.stride[2];
    if (from < 0) {
      for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = 0;
    } else if (to_step == 1 && step == 1) {
      std::copy_n(plane + from, count, to);
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = plane[from + i * step];
    }
  }

  void add_run(const T* from, T* plane, std::int64_t to, std::int64_t count) const {
    if (to < 0) return;
    T* const target = plane + to;
    const std::int64_t step = s.stride[2];
    if (step == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) target[i] += from[i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) target[i * step] += from[i];
    }
  }
};

template <class T>
CpuKernel bind_product(const ConvolutionTask& task, const ConvolutionData& data, int threads) {
  using Product = ProductConvolution<T>;
  const Product product(task, data);
  const auto kernel = [&](std::int64_t count, auto run) {
    return CpuKernel([product, threads, count, run] {
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end, int part) {
        T* const block = product.scratch + part * product.block_size;
        for (std::int64_t i = begin; i < end; ++i) run(product, i, block);
      });
    });
  };
  const ConvolutionSizes& s = task.sizes;
  switch (task.result) {
    case ConvolutionTask::Result::output:
      return kernel(s.images * s.groups * product.place_blocks(),
                    [](const Product& p, std::int64_t i, T* block) { p.forward(i, block); });
    case ConvolutionTask::Result::input:
      return kernel(s.images * s.groups * product.channel_blocks(),
                    [](const Product& p, std::int64_t i, T* block) { p.transposed(i, block); });
    case ConvolutionTask::Result::weight:
      break;
  }
  return kernel(s.groups * product.channel_blocks(),
                [](const Product& p, std::int64_t i, T* block) { p.weight_grad(i, block); });
}

}  // namespace

std::size_t product_convolution_scratch(const ConvolutionTask& task, int threads) {
  if (task.result == ConvolutionTask::Result::output && task.sizes.pointwise()) return 0;
  return static_cast<std::size_t>(block_elements(task)) * size_of(task.element) *
         static_cast<std::size_t>(threads);
}

CpuKernel bind_product_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                   int threads) {
  return with_floating<Convolution>(
      task.element, [&](auto x) { return bind_product<decltype(x)>(task, data, threads); });
}

}  // namespace metronome::METRONOME_ISA
