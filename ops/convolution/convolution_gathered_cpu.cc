// Convolutions of small images as products. The numbers under the kernel make a matrix, as in
// convolution_product_cpu.cc; here tables of indices, made once, read it in flat loops:
//
//   input [4], kernel [3], a zero on each side
//
//   reads   place  0   1   2   3      elements of the input, -1 beyond it
//           tap 0 -1   0   1   2        output:  columns := input[reads],  y = weight columns
//           tap 1  0   1   2   3        weight:  rows, the same by places, weight gradient = y rows
//           tap 2  1   2   3  -1
//
//   parts   point  0   1   2   3      elements of rows [place, tap], -1 for none
//           first  1   2   5   8        input:   rows = y^T weight,
//           second 3   4   7  10                 x[point] := rows[first] + rows[second] + ...
//           third -1   6   9  -1
//
// An output of few places has its matrix turned where the weight is steady: rows [place, tap] times
// the weight as [tap, out], which is packed once, so that channels fill the registers.
//
// Images of few places stand side by side in one product, as a block. Blocks, and with them each
// sum's order, follow from the sizes alone; threads share out blocks and groups, and of a weight's
// gradient groups alone, whose blocks are added in turn.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "ops/convolution/convolution_cpu.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/packed.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

using Result = ConvolutionTask::Result;

/// Elements of a matrix at most, 256 KiB of f32, and as many indices of 4 bytes: with its table it
/// stays in a core's second cache. A larger limit offers this way for larger images, whose matrix
/// leaves that cache; a smaller one for fewer.
constexpr std::int64_t kMostGathered = 64 * 1024;
/// Places of a product up to which images share it: so many columns are whole registers, of 4 to 16
/// elements, and whole panels of the own product (ops/cpu/isa/gemm_tile.h).
constexpr std::int64_t kSharedPlaces = 64;

/// As many images as one product serves: they divide all.
std::int64_t images_at_once(const ConvolutionSizes& s) {
  std::int64_t most =
      std::max<std::int64_t>(1, kSharedPlaces / std::max<std::int64_t>(s.places(), 1));
  while (s.images % most != 0) --most;
  return most;
}

/// The element of its plane that each tap of each place reads: [tap][place], -1 beyond the input.
std::vector<std::int32_t> reads_of_plane(const ConvolutionSizes& s) {
  std::vector<std::int32_t> table;
  for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
    const ConvolutionSizes::Each at = {tap / s.kernel[2] / s.kernel[1],
                                       tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
    for (std::int64_t place = 0; place < s.places(); ++place) {
      const ConvolutionSizes::Each of = {place / s.output[2] / s.output[1],
                                         place / s.output[2] % s.output[1], place % s.output[2]};
      std::int64_t index = 0;
      for (std::size_t d = 0; d < 3; ++d) {
        const std::int64_t x = of[d] * s.stride[d] + at[d] * s.dilation[d] - s.low[d];
        const bool beyond = index < 0 || x < 0 || x >= s.input[d];
        index = beyond ? -1 : index * s.input[d] + x;
      }
      table.push_back(static_cast<std::int32_t>(index));
    }
  }
  return table;
}

/// The tables that a kernel keeps.
struct GatheredTables {
  /// Elements of a block's input, -1 for those beyond it: columns [read][image, place] for an
  /// output, rows [image, place][read] for a weight.
  std::vector<std::int32_t> reads;
  /// For an input: [k][point] the k-th element of a block's rows that is added to it, of the first
  /// image and channel; -1 where there is none.
  std::vector<std::vector<std::int32_t>> parts;
};

/// `by_place`: rows [image, place][read] for an output, too.
GatheredTables tables_of(const ConvolutionTask& task, bool by_place = false) {
  const ConvolutionSizes& s = task.sizes;
  const std::vector<std::int32_t> plane = reads_of_plane(s);
  const std::int64_t images = images_at_once(s), places = s.places(), taps = s.taps();
  const std::int64_t reads = s.in * taps, columns = images * places;
  GatheredTables tables;
  if (task.result == Result::input) {
    std::vector<std::size_t> counts(static_cast<std::size_t>(s.points()));
    for (std::int64_t place = 0; place < places; ++place) {
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int32_t point = plane[tap * places + place];
        if (point < 0) continue;
        const std::size_t k = counts[point]++;
        if (k == tables.parts.size()) tables.parts.emplace_back(counts.size(), -1);
        tables.parts[k][point] = static_cast<std::int32_t>(place * reads + tap);
      }
    }
    return tables;
  }
  tables.reads.resize(static_cast<std::size_t>(reads * columns));
  for (std::int64_t read = 0; read < reads; ++read) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int32_t in_plane = plane[read % taps * places + column % places];
      const std::int64_t image = column / places * s.groups * s.in;
      const std::int64_t element = (image + read / taps) * s.points() + in_plane;
      const bool by_read = task.result == Result::output && !by_place;
      const std::int64_t at = by_read ? read * columns + column : column * reads + read;
      tables.reads[at] = in_plane < 0 ? -1 : static_cast<std::int32_t>(element);
    }
  }
  return tables;
}

template <class T>
struct GatheredConvolution {
  ConvolutionSizes s;
  std::int64_t images;      ///< of a block
  std::int64_t block_size;  ///< elements of one thread's scratch
  T* input;
  T* weight;
  T* output;
  const T* bias;
  T* scratch;
  std::shared_ptr<const GatheredTables> tables;
  /// The second one adds to what is there.
  std::array<OwnProduct, 2> products;

  std::int64_t reads() const { return s.in * s.taps(); }
  std::int64_t columns() const { return images * s.places(); }
  std::int64_t blocks() const { return s.images / images; }
  T* input_of(std::int64_t block, std::int64_t group) const {
    return input + (block * images * s.groups + group) * s.in * s.points();
  }
  T* output_of(std::int64_t block, std::int64_t group) const {
    return output + (block * images * s.groups + group) * s.out * s.places();
  }
  T* weight_of(std::int64_t group) const { return weight + group * s.out * reads(); }

  void gather(const T* from, T* to) const {
    const std::int32_t* const table = tables->reads.data();
    const auto count = static_cast<std::int64_t>(tables->reads.size());
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const T x = from[std::max(table[i], 0)];  // read in any case: the loop is vectorised
      to[i] = table[i] < 0 ? T(0) : x;
    }
  }

  /// f(element of a block's output, element of a matrix [out, columns], k) for each row of places.
  template <class F>
  void rows_of_output(const F& f) const {
    for (std::int64_t image = 0; image < images; ++image) {
      for (std::int64_t k = 0; k < s.out; ++k) {
        f((image * s.groups * s.out + k) * s.places(), k * columns() + image * s.places(), k);
      }
    }
  }

  /// A block's output as [out, columns]: itself, or a copy.
  const T* join_images(const T* y, T* copy) const {
    if (images == 1) return y;
    rows_of_output([&](std::int64_t from, std::int64_t to, std::int64_t) {
      for (std::int64_t i = 0; i < s.places(); ++i) copy[to + i] = y[from + i];
    });
    return copy;
  }

  void forward(std::int64_t item, T* matrix) const {
    const std::int64_t block = item / s.groups, group = item % s.groups;
    T* const y = output_of(block, group);
    const T* const added = bias != nullptr ? bias + group * s.out : nullptr;
    gather(input_of(block, group), matrix);
    if (images == 1) {
      for (std::int64_t k = 0; added != nullptr && k < s.out; ++k) {
        std::fill_n(y + k * s.places(), s.places(), added[k]);
      }
      products[added != nullptr](weight_of(group), matrix, added != nullptr ? y : nullptr, y);
      return;
    }
    T* const all = matrix + reads() * columns();
    products[0](weight_of(group), matrix, nullptr, all);
    rows_of_output([&](std::int64_t to, std::int64_t from, std::int64_t k) {
      const T more = added != nullptr ? added[k] : T(0);
      for (std::int64_t i = 0; i < s.places(); ++i) y[to + i] = all[from + i] + more;
    });
  }

  void transposed(std::int64_t item, T* matrix) const {
    const std::int64_t block = item / s.groups, group = item % s.groups;
    products[0](join_images(output_of(block, group), matrix + reads() * columns()),
                weight_of(group), nullptr, matrix);
    for (std::int64_t image = 0; image < images; ++image) {
      T* const x = input_of(block, group) + image * s.groups * s.in * s.points();
      for (std::int64_t c = 0; c < s.in; ++c) {
        T* const to = x + c * s.points();
        std::fill_n(to, s.points(), bias != nullptr ? bias[group * s.in + c] : T(0));
        const T* const rows = matrix + image * s.places() * reads() + c * s.taps();
        for (const std::vector<std::int32_t>& parts : tables->parts) {
          add_gathered(rows, parts.data(), s.points(), to);
        }
      }
    }
  }

  static void add_gathered(const T* __restrict__ from, const std::int32_t* __restrict__ table,
                           std::int64_t count, T* __restrict__ to) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T x = from[std::max(table[i], 0)];
      to[i] += table[i] < 0 ? T(0) : x;
    }
  }

  void weight_grad(std::int64_t group, T* matrix) const {
    for (std::int64_t block = 0; block < blocks(); ++block) {
      gather(input_of(block, group), matrix);
      T* const w = weight_of(group);
      products[block > 0](join_images(output_of(block, group), matrix + reads() * columns()),
                          matrix, block > 0 ? w : nullptr, w);
    }
  }
};

/// A block's matrix, and its output side by side, in whole lines of the cache.
std::int64_t scratch_elements(const ConvolutionTask& task) {
  const ConvolutionSizes& s = task.sizes;
  const std::int64_t images = images_at_once(s), columns = images * s.places();
  const std::int64_t joined = images > 1 ? s.out * columns : 0;
  return (s.in * s.taps() * columns + joined + 15) / 16 * 16;
}

Gemm gathered_product(const ConvolutionTask& task) {
  const ConvolutionSizes& s = task.sizes;
  const std::int64_t columns = images_at_once(s) * s.places(), reads = s.in * s.taps();
  Gemm g;
  g.element = task.element;
  switch (task.result) {
    case Result::output:  // y = weight columns
      g.m = s.out, g.n = columns, g.k = reads;
      g.lda = reads, g.ldb = columns, g.ldc = columns;
      break;
    case Result::input:  // rows = y^T weight
      g.m = columns, g.n = reads, g.k = s.out;
      g.transpose_a = true;
      g.lda = columns, g.ldb = reads, g.ldc = reads;
      break;
    case Result::weight:  // weight = y rows
      g.m = s.out, g.n = reads, g.k = columns;
      g.lda = columns, g.ldb = reads, g.ldc = reads;
      break;
  }
  return g;
}

template <class T>
CpuKernel bind_gathered(const ConvolutionTask& task, const ConvolutionData& data, int threads) {
  const ConvolutionSizes& s = task.sizes;
  using Gathered = GatheredConvolution<T>;
  Gemm first = gathered_product(task), more = first;
  more.addend = true;
  const Gathered gathered{s,
                          images_at_once(s),
                          scratch_elements(task),
                          static_cast<T*>(data.input),
                          static_cast<T*>(data.weight),
                          static_cast<T*>(data.output),
                          static_cast<const T*>(data.bias),
                          static_cast<T*>(data.scratch),
                          std::make_shared<const GatheredTables>(tables_of(task)),
                          {OwnProduct(first), OwnProduct(more)}};
  const auto kernel = [&](std::int64_t count, auto run) {
    return CpuKernel([gathered, threads, count, run] {
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end, int part) {
        T* const matrix = gathered.scratch + part * gathered.block_size;
        for (std::int64_t i = begin; i < end; ++i) run(gathered, i, matrix);
      });
    });
  };
  switch (task.result) {
    case Result::output:
      return kernel(gathered.blocks() * s.groups,
                    [](const Gathered& g, std::int64_t i, T* matrix) { g.forward(i, matrix); });
    case Result::input:
      return kernel(gathered.blocks() * s.groups,
                    [](const Gathered& g, std::int64_t i, T* matrix) { g.transposed(i, matrix); });
    case Result::weight:
      break;
  }
  return kernel(s.groups,
                [](const Gathered& g, std::int64_t i, T* matrix) { g.weight_grad(i, matrix); });
}

/// The turned way: y^T = rows weight^T.
template <class T>
class TurnedConvolution {
 public:
  TurnedConvolution(const ConvolutionTask& task, const ConvolutionData& data, int threads)
      : gathered_{.s = task.sizes,
                  .images = images_at_once(task.sizes),
                  .block_size = turned_elements(task),
                  .input = static_cast<T*>(data.input),
                  .weight = static_cast<T*>(data.weight),
                  .output = static_cast<T*>(data.output),
                  .bias = static_cast<const T*>(data.bias),
                  .scratch = static_cast<T*>(data.scratch),
                  .tables = std::make_shared<const GatheredTables>(tables_of(task, true)),
                  .products = {OwnProduct(product(task)), {}}},
        threads_(threads),
        weight_(packed_weight_bytes(task), data.version_of_weight) {}

  static std::int64_t turned_elements(const ConvolutionTask& task) {
    const ConvolutionSizes& s = task.sizes;
    return ((s.in * s.taps() + s.out) * images_at_once(s) * s.places() + 15) / 16 * 16;
  }
  static std::size_t packed_weight_bytes(const ConvolutionTask& task) {
    const ConvolutionSizes& s = task.sizes;
    return static_cast<std::size_t>(s.groups * s.out * s.in * s.taps()) * sizeof(T);
  }

  void operator()() {
    weight_.update([this] { turn_weight(); });
    const GatheredConvolution<T>& g = gathered_;
    parallel_for(threads_, g.blocks() * g.s.groups, 1,
                 [&](std::int64_t begin, std::int64_t end, int part) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     forward(i, g.scratch + part * g.block_size);
                   }
                 });
  }

 private:
  static Gemm product(const ConvolutionTask& task) {
    const ConvolutionSizes& s = task.sizes;
    Gemm g;
    g.element = task.element;
    g.m = images_at_once(s) * s.places(), g.n = s.out, g.k = s.in * s.taps();
    g.lda = g.k, g.ldb = g.n, g.ldc = g.n;
    return g;
  }

  void turn_weight() {
    const GatheredConvolution<T>& g = gathered_;
    const std::int64_t reads = g.reads(), out = g.s.out;
    for (std::int64_t group = 0; group < g.s.groups; ++group) {
      const T* const from = g.weight_of(group);
      T* const to = weight_.data<T>() + group * out * reads;
      for (std::int64_t k = 0; k < out; ++k) {
        for (std::int64_t read = 0; read < reads; ++read)
          to[read * out + k] = from[k * reads + read];
      }
    }
  }

  void forward(std::int64_t item, T* matrix) {
    const GatheredConvolution<T>& g = gathered_;
    const std::int64_t block = item / g.s.groups, group = item % g.s.groups, out = g.s.out;
    T* const y = g.output_of(block, group);
    T* const all = matrix + g.reads() * g.columns();
    g.gather(g.input_of(block, group), matrix);
    g.products[0](matrix, weight_.data<T>() + group * out * g.reads(), nullptr, all);
    for (std::int64_t image = 0; image < g.images; ++image) {
      const T* const from = all + image * g.s.places() * out;
      T* const to = y + image * g.s.groups * out * g.s.places();
      for (std::int64_t k = 0; k < out; ++k) {
        const T more = g.bias != nullptr ? g.bias[group * out + k] : T(0);
        for (std::int64_t i = 0; i < g.s.places(); ++i) {
          to[k * g.s.places() + i] = from[i * out + k] + more;
        }
      }
    }
  }

  GatheredConvolution<T> gathered_;
  int threads_;
  Packed weight_;
};

}  // namespace

bool offers_turned_convolution(const ConvolutionTask& task) {
  if (!task.steady_weight || task.result != Result::output) return false;
  // With more places the usual product's registers are as full.
  constexpr std::int64_t kFewPlaces = 32;
  const ConvolutionSizes& s = task.sizes;
  return offers_gathered_convolution(task) && images_at_once(s) * s.places() < kFewPlaces;
}

Candidate turned_convolution_candidate(const ConvolutionTask& task, int threads) {
  Candidate candidate{.threads = threads};
  with_floating<Convolution>(task.element, [&](auto x) {
    using Turned = TurnedConvolution<decltype(x)>;
    candidate.packed_bytes = Turned::packed_weight_bytes(task);
    candidate.scratch_bytes = static_cast<std::size_t>(Turned::turned_elements(task)) * sizeof(x) *
                              static_cast<std::size_t>(threads);
  });
  return candidate;
}

CpuKernel bind_turned_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                  int threads) {
  return with_floating<Convolution>(task.element, [&](auto x) {
    auto turned = std::make_shared<TurnedConvolution<decltype(x)>>(task, data, threads);
    return CpuKernel([turned] { (*turned)(); });
  });
}

bool offers_gathered_convolution(const ConvolutionTask& task) {
  const ConvolutionSizes& s = task.sizes;
  if (s.images == 0 || s.places() == 0 || s.points() == 0) return false;
  if (s.taps() > kMostGathered || s.in > kMostGathered / s.taps()) return false;
  const std::int64_t reads = s.in * s.taps(), images = images_at_once(s);
  if (reads == 0 || s.places() > kMostGathered / reads / images) return false;
  return s.points() <= std::numeric_limits<std::int32_t>::max() / (images * s.groups * s.in);
}

std::size_t gathered_convolution_scratch(const ConvolutionTask& task, int threads) {
  return static_cast<std::size_t>(scratch_elements(task)) * size_of(task.element) *
         static_cast<std::size_t>(threads);
}

CpuKernel bind_gathered_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                    int threads) {
  return with_floating<Convolution>(
      task.element, [&](auto x) { return bind_gathered<decltype(x)>(task, data, threads); });
}

}  // namespace metronome::METRONOME_ISA
