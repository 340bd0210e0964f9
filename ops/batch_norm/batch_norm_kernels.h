// Batch norm: a tile of channels for each block, or a slice of their elements if channels are few
// and long. Each channel is walked twice, once for its sums and once to write:
//
//   one slice   whole      sums, then y, in one kernel
//   several     sums       the sums of each slice -> partials [slice][sum][channel]
//               apply      each block adds up its channels' partials in one order, then writes y
//
// `BatchNormTensors` and `BatchNormGradTensors` say what is summed and written; `BatchNormKernel`
// makes the three forms of each. Sums are made in double, of differences from one of the channel's
// own elements (backward: from its mean), so that a mean far from 0 cancels nothing. `Elements` are
// neighbours in a plane that are moved at once. Evaluation only writes.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// Neighbours that lie anywhere. They take the place of a Pack where its bytes are not aligned, so
/// that the order of additions does not depend on where tensors lie.
template <class T, int kCount>
struct LoosePack {
  T v[kCount];
};

/// x [images, channels, plane], counted in packs of elements. A channel's are counted through all
/// images.
struct Channels {
  Index images = 0;
  Index channels = 0;
  Index plane = 1;
  int width = 1;         ///< channels of a tile
  Index slices = 1;      ///< parts of each channel
  Index slice = 0;       ///< packs of a part, but the last; fewer than 2^31: memory ends before
  StridedLoops strided;  ///< a channel's planes, as the threads of a slice walk them

  METRONOME_DEVICE Index each() const { return images * plane; }
  METRONOME_DEVICE Index tiles() const { return (channels + width - 1) / width; }
};

/// Packs first .. last of a channel: its slice `place`.
struct ChannelSlice {
  Index channel;  ///< may lie beyond the last one; then it has no elements
  Index first, last;
  Index place;
};

/// Numbers that are summed at once.
constexpr int kBatchNormSums = 3;

/// The sums of a slice: sum k of the channel `c` at [(place * kBatchNormSums + k) * channels + c].
struct ChannelPartials {
  double* sums = nullptr;
};

/// kernel.slice(c, tile, slice) for each slice of each tile of channels of this block.
template <class Context, class Kernel>
METRONOME_DEVICE void for_slices(Context& c, const Channels& x, const Kernel& kernel) {
  Tile tile = make_tile<double>(c, x.width, kBatchNormSums);
  const Index tiles = x.tiles(), each = x.each();
  for (Index at = c.block(); at < tiles * x.slices; at += c.blocks()) {
    const Index place = at / tiles, first = place * x.slice;
    const Index channel = at % tiles * x.width + tile.column;
    const Index last = first + x.slice < each ? first + x.slice : each;
    kernel.slice(c, tile, ChannelSlice{channel, first, channel < x.channels ? last : first, place});
  }
}

/// Loaded elements, and their place in x.
template <class V>
struct PlacedElements {
  Index at;
  V v;
};

/// use(at, load(at)) for this thread's packs of a slice, in order; `at` is their place in x.
template <class V, class LoadOne, class UseOne>
METRONOME_DEVICE void walk_slice(const Channels& x, const Tile& tile, const ChannelSlice& w,
                                 const LoadOne& load, const UseOne& use) {
  StridedPlaces steps(x.strided, w.first + tile.rank);
  const Index origin = w.channel * x.plane;
  walk<PlacedElements<V>>(
      tile.rank, tile.size, int(w.last - w.first),
      [&](Index) {
        const Index at = origin + steps.next();
        return PlacedElements<V>{at, load(at)};
      },
      [&](int, Index, const PlacedElements<V>& placed) { use(placed.at, placed.v); });
}

/// Sums over a slice, or over a channel once all slices are added up.
struct ChannelSums {
  double of[kBatchNormSums];
};

/// Leaves a slice's sums behind.
METRONOME_DEVICE void keep_slice(const Tile& tile, const Channels& x,
                                 const ChannelPartials& partials, const ChannelSlice& w,
                                 const ChannelSums& sums) {
  if (tile.rank != 0 || w.channel >= x.channels) return;
  for (int k = 0; k < kBatchNormSums; ++k) {
    partials.sums[(w.place * kBatchNormSums + k) * x.channels + w.channel] = sums.of[k];
  }
}

/// Adds up what slices left behind: each thread of a channel's gets all of it, in one order.
template <class Context>
METRONOME_DEVICE ChannelSums all_slices(Context& c, Tile& tile, const Channels& x,
                                        const ChannelPartials& partials, const ChannelSlice& w) {
  ChannelSums total{};
  if (w.channel < x.channels) {
    for (Index s = tile.rank; s < x.slices; s += tile.size) {
      for (int k = 0; k < kBatchNormSums; ++k) {
        total.of[k] += partials.sums[(s * kBatchNormSums + k) * x.channels + w.channel];
      }
    }
  }
  reduce<Sum, kBatchNormSums>(c, tile, total.of);
  return total;
}

/// The part that a kernel does: the whole, where a channel is one slice; else a first one makes the
/// sums of slices, and a second applies them.
enum class BatchNormPart { whole, sums, apply };

/// The other operands and results of the forward form.
template <class T, class Elements>
struct BatchNormTensors {
  /// The kernels' names, by part.
  static constexpr const char* names[] = {"batch_norm", "batch_norm_statistics",
                                          "batch_norm_apply"};
  static constexpr int kPack = sizeof(Elements) / sizeof(T);
  const Elements* x;
  const T* gamma;
  const T* beta;
  const T* running_mean;
  const T* running_variance;
  Elements* y;
  T* new_mean;
  T* new_variance;
  T* saved_mean;  ///< may be null
  T* saved_rstd;  ///< may be null
  Watch watch;
  double eps;
  double momentum;

  // Sums of d = x - shift, of its square, and `shift` once. It is one of the channel's own
  // elements, if that is finite: no cancellation however far from zero they lie. It comes back
  // through the sums, to which the first thread gives it, so that no thread needs to read x again
  // for it after another has begun to write y over x.
  template <class Context>
  METRONOME_DEVICE ChannelSums sums(Context& c, Tile& tile, const Channels& e,
                                    const ChannelSlice& w) const {
    const T first = w.channel < e.channels ? x[w.channel * e.plane].v[0] : T(0);
    const double shift = first - first == T(0) ? double(first) : 0.0;
    const bool gives = tile.rank == 0 && w.place == 0;
    ChannelSums total{{0, 0, gives ? shift : 0.0}};
    walk_slice<Elements>(
        e, tile, w, [&](Index at) { return x[at]; },
        [&](Index, const Elements& v) {
          METRONOME_UNROLL
          for (int k = 0; k < kPack; ++k) {
            const double d = double(v.v[k]) - shift;
            total.of[0] += d;
            total.of[1] = fma_of(d, d, total.of[1]);
          }
        });
    reduce<Sum, kBatchNormSums>(c, tile, total.of);
    return total;
  }

  template <class Context>
  METRONOME_DEVICE void write(Context& c, const Tile& tile, const Channels& e,
                              const ChannelSlice& w, const ChannelSums& s) const {
    if (w.channel >= e.channels) return;
    const double count = double(e.each() * kPack);
    const double rest = s.of[0] / count, mean = s.of[2] + rest;
    const double squares = s.of[1] - s.of[0] * rest;
    const double m2 = squares < 0 ? 0 : squares;  // keeps a NaN
    const double rstd = 1 / sqrt_of(m2 / count + eps);
    if (tile.rank == 0 && w.place == 0) {
      const Index i = w.channel;
      const double moved = (1 - momentum) * running_mean[i] + momentum * mean;
      new_mean[i] = watch_number(c, watch, T(moved));
      const double unbiased = m2 / (count - 1);
      new_variance[i] =
          watch_number(c, watch, T((1 - momentum) * running_variance[i] + momentum * unbiased));
      if (saved_mean != nullptr) saved_mean[i] = T(mean);
      if (saved_rstd != nullptr) saved_rstd[i] = T(rstd);
    }
    // A mean far from zero, rounded to T, is off by a good part of what differs from it.
    const T center = T(mean), factor = T(rstd * double(gamma[w.channel]));
    const double left = mean - double(center);
    const double moved = left == 0 ? 0 : left * double(factor);  // infinite gamma makes no NaN here
    const T move = T(double(beta[w.channel]) - moved);
    walk_slice<Elements>(
        e, tile, w, [&](Index at) { return x[at]; },
        [&](Index at, Elements v) {
          METRONOME_UNROLL
          for (int k = 0; k < kPack; ++k) {
            v.v[k] = watch_number(c, watch, fma_of(v.v[k] - center, factor, move));
          }
          y[at] = v;
        });
  }
};

/// dx = gamma rstd (g - average(g) - n average(g n)) with n = (x - mean) rstd.
template <class T, class Elements>
struct BatchNormGradTensors {
  static constexpr const char* names[] = {"batch_norm_grad", "batch_norm_grad_sums",
                                          "batch_norm_grad_apply"};
  static constexpr int kPack = sizeof(Elements) / sizeof(T);
  const Elements* g;
  const Elements* x;
  const T* mean;
  const T* rstd;
  const T* gamma;
  Elements* dx;
  T* dgamma;
  T* dbeta;
  Watch watch;

  struct Pair {
    Elements g, x;
  };

  // Sums of g, of g d and of d = x - mean, whose average is what rounding the mean left over.
  template <class Context>
  METRONOME_DEVICE ChannelSums sums(Context& c, Tile& tile, const Channels& e,
                                    const ChannelSlice& w) const {
    const double center = w.channel < e.channels ? double(mean[w.channel]) : 0.0;
    ChannelSums total{};
    walk_slice<Pair>(
        e, tile, w, [&](Index at) { return Pair{g[at], x[at]}; },
        [&](Index, const Pair& v) {
          METRONOME_UNROLL
          for (int k = 0; k < kPack; ++k) {
            const double d = double(v.x.v[k]) - center, slope = double(v.g.v[k]);
            total.of[0] += slope;
            total.of[1] = fma_of(slope, d, total.of[1]);
            total.of[2] += d;
          }
        });
    reduce<Sum, kBatchNormSums>(c, tile, total.of);
    return total;
  }

  /// The rest of a rounded mean times a sum. It changes no infinite sum.
  METRONOME_DEVICE static double times(double rest, double sum) {
    return sum - sum == 0 ? rest * sum : 0;
  }

  template <class Context>
  METRONOME_DEVICE void write(Context& c, const Tile& tile, const Channels& e,
                              const ChannelSlice& w, const ChannelSums& s) const {
    if (w.channel >= e.channels) return;
    const T center = mean[w.channel], scale = rstd[w.channel];
    const double count = double(e.each() * kPack), rest = left_of_mean(s.of[2] / count, center);
    const double product = (s.of[1] - times(rest, s.of[0])) * double(scale);
    if (tile.rank == 0 && w.place == 0) {
      dgamma[w.channel] = watch_number(c, watch, T(product));
      dbeta[w.channel] = watch_number(c, watch, T(s.of[0]));
    }
    const double steep = product / count * double(scale);
    const T factor = gamma[w.channel] * scale, slope = T(steep);
    const T base = T(s.of[0] / count - times(rest, steep));
    walk_slice<Pair>(
        e, tile, w, [&](Index at) { return Pair{g[at], x[at]}; },
        [&](Index at, const Pair& v) {
          Elements result;
          METRONOME_UNROLL
          for (int k = 0; k < kPack; ++k) {
            const T share = fma_of(v.x.v[k] - center, slope, base);
            result.v[k] = watch_number(c, watch, (v.g.v[k] - share) * factor);
          }
          dx[at] = result;
        });
  }
};

/// A kernel of those tensors: their `sums`, and what they `write` with them.
template <class Tensors, BatchNormPart kPart>
struct BatchNormKernel {
  static constexpr const char* name = Tensors::names[int(kPart)];
  Tensors tensors;
  Channels channels;
  ChannelPartials partials = {};  ///< not of the part `whole`

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    if constexpr (kPart == BatchNormPart::whole) {
      tensors.write(c, tile, channels, w, tensors.sums(c, tile, channels, w));
    } else if constexpr (kPart == BatchNormPart::sums) {
      keep_slice(tile, channels, partials, w, tensors.sums(c, tile, channels, w));
    } else {
      tensors.write(c, tile, channels, w, all_slices(c, tile, channels, partials, w));
    }
  }
};

/// fma((x - mean) rstd, gamma, beta) with rstd = 1 / sqrt(variance + eps).
template <class T, class Elements>
struct BatchNormFixed {
  static constexpr const char* name = "batch_norm_evaluate";
  static constexpr int kPack = sizeof(Elements) / sizeof(T);
  const Elements* x;
  const T* gamma;
  const T* beta;
  const T* mean;
  const T* variance;
  Elements* y;
  Watch watch;
  Channels channels;
  T eps;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    if (w.channel >= channels.channels) return;
    const T center = mean[w.channel], rstd = T(1) / sqrt_of(variance[w.channel] + eps);
    const T scale = gamma[w.channel], move = beta[w.channel];
    walk_slice<Elements>(
        channels, tile, w, [&](Index at) { return x[at]; },
        [&](Index at, Elements v) {
          METRONOME_UNROLL
          for (int k = 0; k < kPack; ++k) {
            v.v[k] = watch_number(c, watch, fma_of((v.v[k] - center) * rstd, scale, move));
          }
          y[at] = v;
        });
  }
};

template <class Tensors>
using BatchNormPartsOf = KernelList<BatchNormKernel<Tensors, BatchNormPart::whole>,
                                    BatchNormKernel<Tensors, BatchNormPart::sums>,
                                    BatchNormKernel<Tensors, BatchNormPart::apply>>;

template <class T, class Elements>
using BatchNormKernelsOf = typename JoinedList<BatchNormPartsOf<BatchNormTensors<T, Elements>>,
                                               BatchNormPartsOf<BatchNormGradTensors<T, Elements>>,
                                               KernelList<BatchNormFixed<T, Elements>>>::type;

using BatchNormKernels = typename JoinedList<
    BatchNormKernelsOf<float, Pack<float, 1>>, BatchNormKernelsOf<float, Pack<float, 4>>,
    BatchNormKernelsOf<float, LoosePack<float, 4>>, BatchNormKernelsOf<double, Pack<double, 1>>,
    BatchNormKernelsOf<double, Pack<double, 2>>,
    BatchNormKernelsOf<double, LoosePack<double, 2>>>::type;

}  // namespace metronome::cuda
