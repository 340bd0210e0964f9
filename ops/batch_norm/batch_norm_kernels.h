// Batch norm: a tile of channels for each block, or a slice of their elements where channels are
// few and long; then a first kernel leaves each slice's sums behind, and a second adds them up.
// Sums are made in double.
#pragma once

#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// x [images, channels, plane]. A channel's elements are counted through all images.
struct Channels {
  Index images = 0;
  Index channels = 0;
  Index plane = 1;
  int width = 1;     ///< channels of a tile
  Index slices = 1;  ///< parts of each channel
  Index slice = 0;   ///< elements of a part, but the last

  METRONOME_DEVICE Index each() const { return images * plane; }
  METRONOME_DEVICE Index tiles() const { return (channels + width - 1) / width; }
};

/// Elements first .. last of a channel: its slice `place`.
struct ChannelSlice {
  Index channel;  ///< may lie beyond the last one; then it has no elements
  Index first, last;
  Index place;
};

/// Numbers that are summed at once.
constexpr int kBatchNormSums = 3;

/// What a slice leaves behind: sum k of the channel `c` at [(place * kBatchNormSums + k) * channels
/// + c].
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

/// use(at, load(at)) for this thread's elements of a slice, in order; `at` is their place in x.
template <class V, class LoadOne, class UseOne>
METRONOME_DEVICE void walk_slice(const Channels& x, const Tile& tile, const ChannelSlice& w,
                                 const LoadOne& load, const UseOne& use) {
  // The image and the place in its plane, moved on without divisions.
  const Index begin = w.first + tile.rank;
  Index image = begin / x.plane, inner = begin - image * x.plane;
  const Index images = tile.size / x.plane, inners = tile.size - images * x.plane;
  for (Index i = begin; i < w.last;) {
    V v[kTogether] = {};
    Index at[kTogether] = {};
    METRONOME_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      if (i + Index(k) * tile.size < w.last) {
        at[k] = (image * x.channels + w.channel) * x.plane + inner;
        v[k] = load(at[k]);
        image += images;
        inner += inners;
        if (inner >= x.plane) {
          inner -= x.plane;
          ++image;
        }
      }
    }
    METRONOME_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      if (i + Index(k) * tile.size < w.last) use(at[k], v[k]);
    }
    i += Index(kTogether) * tile.size;
  }
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

/// What the forward form is told besides.
template <class T>
struct BatchNormTensors {
  const T* x;
  const T* gamma;
  const T* beta;
  const T* running_mean;
  const T* running_variance;
  T* y;
  T* new_mean;
  T* new_variance;
  T* saved_mean;  ///< may be null
  T* saved_rstd;  ///< may be null
  Watch watch;
  double eps;
  double momentum;

  // Of d = x - shift, of its square, and `shift` once. It is one of the channel's own elements, if
  // that is finite: no cancellation however far from zero they lie. It comes back through the sums,
  // to which the first thread gives it, so that no thread needs to read x again for it after
  // another has begun to write y over x.
  template <class Context>
  METRONOME_DEVICE ChannelSums sums(Context& c, Tile& tile, const Channels& e,
                                    const ChannelSlice& w) const {
    const T first = w.channel < e.channels ? x[w.channel * e.plane] : T(0);
    const double shift = first - first == T(0) ? double(first) : 0.0;
    const bool gives = tile.rank == 0 && w.place == 0;
    ChannelSums total{{0, 0, gives ? shift : 0.0}};
    walk_slice<T>(
        e, tile, w, [&](Index at) { return x[at]; },
        [&](Index, T v) {
          const double d = double(v) - shift;
          total.of[0] += d;
          total.of[1] = fma_of(d, d, total.of[1]);
        });
    reduce<Sum, kBatchNormSums>(c, tile, total.of);
    return total;
  }

  template <class Context>
  METRONOME_DEVICE void write(Context& c, const Tile& tile, const Channels& e,
                              const ChannelSlice& w, const ChannelSums& s) const {
    if (w.channel >= e.channels) return;
    const double count = double(e.each());
    const double rest = s.of[0] / count, mean = s.of[2] + rest;
    const double squares = s.of[1] - s.of[0] * rest;
    const double m2 = squares < 0 ? 0 : squares;  // keeps a NaN
    const double rstd = 1 / sqrt_of(m2 / count + eps);
    if (tile.rank == 0 && w.place == 0) {
      const Index i = w.channel;
      const double moved = (1 - momentum) * running_mean[i] + momentum * mean;
      new_mean[i] = watched(c, watch, T(moved));
      const double unbiased = m2 / (count - 1);
      new_variance[i] =
          watched(c, watch, T((1 - momentum) * running_variance[i] + momentum * unbiased));
      if (saved_mean != nullptr) saved_mean[i] = T(mean);
      if (saved_rstd != nullptr) saved_rstd[i] = T(rstd);
    }
    // A mean far from zero, rounded to T, is off by a good part of what differs from it.
    const T center = T(mean), factor = T(rstd * double(gamma[w.channel]));
    const double left = mean - double(center);
    const double moved = left == 0 ? 0 : left * double(factor);  // infinite gamma makes no NaN here
    const T move = T(double(beta[w.channel]) - moved);
    walk_slice<T>(
        e, tile, w, [&](Index at) { return x[at]; },
        [&](Index at, T v) { y[at] = watched(c, watch, fma_of(v - center, factor, move)); });
  }
};

/// All of it, where a channel is one slice.
template <class T>
struct BatchNormForward {
  static constexpr const char* name = "batch_norm";
  BatchNormTensors<T> tensors;
  Channels channels;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    tensors.write(c, tile, channels, w, tensors.sums(c, tile, channels, w));
  }
};

template <class T>
struct BatchNormStatistics {
  static constexpr const char* name = "batch_norm_statistics";
  BatchNormTensors<T> tensors;
  Channels channels;
  ChannelPartials partials;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    keep_slice(tile, channels, partials, w, tensors.sums(c, tile, channels, w));
  }
};

template <class T>
struct BatchNormApply {
  static constexpr const char* name = "batch_norm_apply";
  BatchNormTensors<T> tensors;
  Channels channels;
  ChannelPartials partials;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    tensors.write(c, tile, channels, w, all_slices(c, tile, channels, partials, w));
  }
};

/// dx = gamma rstd (g - average(g) - n average(g n)) with n = (x - mean) rstd.
template <class T>
struct BatchNormGradTensors {
  const T* g;
  const T* x;
  const T* mean;
  const T* rstd;
  const T* gamma;
  T* dx;
  T* dgamma;
  T* dbeta;
  Watch watch;

  struct Pair {
    T g, x;
  };

  // Sums of g, of g d and of d = x - mean, whose average is what rounding the mean left over.
  template <class Context>
  METRONOME_DEVICE ChannelSums sums(Context& c, Tile& tile, const Channels& e,
                                    const ChannelSlice& w) const {
    const double center = w.channel < e.channels ? double(mean[w.channel]) : 0.0;
    ChannelSums total{};
    walk_slice<Pair>(
        e, tile, w,
        [&](Index at) {
          return Pair{g[at], x[at]};
        },
        [&](Index, Pair v) {
          const double d = double(v.x) - center;
          total.of[0] += double(v.g);
          total.of[1] = fma_of(double(v.g), d, total.of[1]);
          total.of[2] += d;
        });
    reduce<Sum, kBatchNormSums>(c, tile, total.of);
    return total;
  }

  template <class Context>
  METRONOME_DEVICE void write(Context& c, const Tile& tile, const Channels& e,
                              const ChannelSlice& w, const ChannelSums& s) const {
    if (w.channel >= e.channels) return;
    const T center = mean[w.channel], scale = rstd[w.channel];
    const double count = double(e.each()), rest = left_of_mean(s.of[2] / count, center);
    const double product = (s.of[1] - rest * s.of[0]) * double(scale);
    if (tile.rank == 0 && w.place == 0) {
      dgamma[w.channel] = watched(c, watch, T(product));
      dbeta[w.channel] = watched(c, watch, T(s.of[0]));
    }
    const double steep = product / count * double(scale);
    const T factor = gamma[w.channel] * scale, slope = T(steep);
    const T base = T(s.of[0] / count - rest * steep);
    walk_slice<Pair>(
        e, tile, w,
        [&](Index at) {
          return Pair{g[at], x[at]};
        },
        [&](Index at, Pair v) {
          dx[at] = watched(c, watch, (v.g - fma_of(v.x - center, slope, base)) * factor);
        });
  }
};

/// All of it, where a channel is one slice.
template <class T>
struct BatchNormBackward {
  static constexpr const char* name = "batch_norm_grad";
  BatchNormGradTensors<T> tensors;
  Channels channels;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    tensors.write(c, tile, channels, w, tensors.sums(c, tile, channels, w));
  }
};

template <class T>
struct BatchNormGradSums {
  static constexpr const char* name = "batch_norm_grad_sums";
  BatchNormGradTensors<T> tensors;
  Channels channels;
  ChannelPartials partials;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    keep_slice(tile, channels, partials, w, tensors.sums(c, tile, channels, w));
  }
};

template <class T>
struct BatchNormGradApply {
  static constexpr const char* name = "batch_norm_grad_apply";
  BatchNormGradTensors<T> tensors;
  Channels channels;
  ChannelPartials partials;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_slices(c, channels, *this);
  }
  template <class Context>
  METRONOME_DEVICE void slice(Context& c, Tile& tile, const ChannelSlice& w) const {
    tensors.write(c, tile, channels, w, all_slices(c, tile, channels, partials, w));
  }
};

/// fma((x - mean) rstd, gamma, beta) with rstd = 1 / sqrt(variance + eps).
template <class T>
struct BatchNormFixed {
  static constexpr const char* name = "batch_norm_evaluate";
  const T* x;
  const T* gamma;
  const T* beta;
  const T* mean;
  const T* variance;
  T* y;
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
    walk_slice<T>(
        channels, tile, w, [&](Index at) { return x[at]; },
        [&](Index at, T v) {
          y[at] = watched(c, watch, fma_of((v - center) * rstd, scale, move));
        });
  }
};

using BatchNormKernels =
    KernelList<BatchNormForward<float>, BatchNormForward<double>, BatchNormStatistics<float>,
               BatchNormStatistics<double>, BatchNormApply<float>, BatchNormApply<double>,
               BatchNormBackward<float>, BatchNormBackward<double>, BatchNormGradSums<float>,
               BatchNormGradSums<double>, BatchNormGradApply<float>, BatchNormGradApply<double>,
               BatchNormFixed<float>, BatchNormFixed<double>>;

}  // namespace metronome::cuda
