// Convolutions element by element: a thread for each element of a result, a team of threads for
// each element of a weight's gradient. Sums have one order, so the same bits every time.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// ConvolutionSizes of ops/convolution/sizes.h: three spatial dimensions.
struct ConvolutionPlan {
  Index groups, in, out;  ///< groups, and channels and outputs of each
  Index input[3], kernel[3], output[3], stride[3], dilation[3], low[3];

  METRONOME_DEVICE Index points() const { return input[0] * input[1] * input[2]; }
  METRONOME_DEVICE Index taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  METRONOME_DEVICE Index places() const { return output[0] * output[1] * output[2]; }
  /// Where, in dimension d, the kernel's element j lies on the input at place o.
  METRONOME_DEVICE Index under(int d, Index o, Index j) const {
    return o * stride[d] + j * dilation[d] - low[d];
  }
};

/// An element of an image: its image, its channel among all, and three coordinates.
struct ConvolutionSpot {
  Index image, channel, at[3];

  METRONOME_DEVICE ConvolutionSpot(Index i, Index channels, const Index (&size)[3]) {
    METRONOME_UNROLL
    for (int d = 2; d >= 0; --d) {
      const Index next = quotient(i, size[d]);
      at[d] = i - next * size[d];
      i = next;
    }
    image = quotient(i, channels);
    channel = i - image * channels;
  }
};

/// y = convolution(x, weight) + bias.
template <class T>
struct Convolution {
  static constexpr const char* name = "convolution";
  const T* x;
  const T* weight;
  const T* bias;  ///< may be null
  T* y;
  ConvolutionPlan plan;
  Index count;  ///< elements of y
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const ConvolutionSpot spot(i, plan.groups * plan.out, plan.output);
      y[i] = watched(c, watch, sum(spot));
    }
  }

  METRONOME_DEVICE T sum(const ConvolutionSpot& spot) const {
    const Index group = quotient(spot.channel, plan.out);
    const T* from = x + (spot.image * plan.groups + group) * plan.in * plan.points();
    const T* w = weight + spot.channel * plan.in * plan.taps();
    T total = bias != nullptr ? bias[spot.channel] : T(0);
    METRONOME_ROLLED
    for (Index channel = 0; channel < plan.in; ++channel) {
      METRONOME_ROLLED
      for (Index a = 0; a < plan.kernel[0]; ++a) {
        const Index z = plan.under(0, spot.at[0], a);
        if (z < 0 || z >= plan.input[0]) continue;
        METRONOME_ROLLED
        for (Index b = 0; b < plan.kernel[1]; ++b) {
          const Index v = plan.under(1, spot.at[1], b);
          if (v < 0 || v >= plan.input[1]) continue;
          const T* const row = from + (z * plan.input[1] + v) * plan.input[2];
          const T* const taps = w + (a * plan.kernel[1] + b) * plan.kernel[2];
          for (Index e = 0; e < plan.kernel[2]; ++e) {
            const Index u = plan.under(2, spot.at[2], e);
            if (u >= 0 && u < plan.input[2]) total = fma_of(row[u], taps[e], total);
          }
        }
      }
      from += plan.points();
      w += plan.taps();
    }
    return total;
  }
};

/// x = transposed_convolution(y, weight) + bias.
template <class T>
struct TransposedConvolution {
  static constexpr const char* name = "transposed_convolution";
  const T* y;
  const T* weight;
  const T* bias;  ///< may be null
  T* x;
  ConvolutionPlan plan;
  Index count;  ///< elements of x
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const ConvolutionSpot spot(i, plan.groups * plan.in, plan.input);
      x[i] = watched(c, watch, sum(spot));
    }
  }

  /// The place at which the kernel's element j lies on element i, or -1.
  METRONOME_DEVICE Index place(int d, Index i, Index j) const {
    const Index from_low = i + plan.low[d] - j * plan.dilation[d];
    if (from_low < 0) return -1;
    const Index o = quotient(from_low, plan.stride[d]);
    return o * plan.stride[d] == from_low && o < plan.output[d] ? o : -1;
  }

  METRONOME_DEVICE T sum(const ConvolutionSpot& spot) const {
    const Index group = quotient(spot.channel, plan.in), channel = spot.channel - group * plan.in;
    const T* from = y + (spot.image * plan.groups + group) * plan.out * plan.places();
    const T* w = weight + (group * plan.out * plan.in + channel) * plan.taps();
    T total = bias != nullptr ? bias[spot.channel] : T(0);
    METRONOME_ROLLED
    for (Index k = 0; k < plan.out; ++k) {
      METRONOME_ROLLED
      for (Index a = 0; a < plan.kernel[0]; ++a) {
        const Index z = place(0, spot.at[0], a);
        if (z < 0) continue;
        METRONOME_ROLLED
        for (Index b = 0; b < plan.kernel[1]; ++b) {
          const Index v = place(1, spot.at[1], b);
          if (v < 0) continue;
          const T* const row = from + (z * plan.output[1] + v) * plan.output[2];
          const T* const taps = w + (a * plan.kernel[1] + b) * plan.kernel[2];
          for (Index e = 0; e < plan.kernel[2]; ++e) {
            const Index u = place(2, spot.at[2], e);
            if (u >= 0) total = fma_of(row[u], taps[e], total);
          }
        }
      }
      from += plan.places();
      w += plan.in * plan.taps();
    }
    return total;
  }
};

/// The sums over all images and places of x g; a team for each element of the result.
template <class T>
struct ConvolutionWeightGrad {
  static constexpr const char* name = "convolution_weight_grad";
  const T* x;
  const T* g;
  T* weight;
  ConvolutionPlan plan;
  Index images;
  Index count;  ///< elements of the weight
  int team_threads;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Team team = make_team<T>(c, team_threads, 1);
    const int teams = c.threads() / team.size;
    const Index step = Index(c.blocks()) * teams;
    // All teams of a block take part in each turn, also those beyond the last element.
    for (Index begin = Index(c.block()) * teams; begin < count; begin += step) {
      const Index i = begin + team.index;
      T total[kTogether] = {};
      if (i < count) add(team, i, total);
      const T sum = reduce<Sum>(c, team, joined<Sum>(total));
      if (team.rank == 0 && i < count) weight[i] = watched(c, watch, sum);
    }
  }

  METRONOME_DEVICE void add(const Team& team, Index i, T (&total)[kTogether]) const {
    // Of a weight [groups x out, in, kernel...] the first two dimensions are those of an image.
    const ConvolutionSpot tap(i, plan.in, plan.kernel);
    const Index k = tap.image, group = quotient(k, plan.out);
    const Index channel = group * plan.in + tap.channel;
    const Index places = plan.places();
    walk<T>(
        team.rank, team.size, images * places,
        [&](Index at) {
          const ConvolutionSpot spot(at, 1, plan.output);
          Index from = spot.image * plan.groups * plan.in + channel;
          METRONOME_UNROLL
          for (int d = 0; d < 3; ++d) {
            const Index under = plan.under(d, spot.at[d], tap.at[d]);
            if (under < 0 || under >= plan.input[d]) return T(0);
            from = from * plan.input[d] + under;
          }
          const Index place = at - spot.image * places;
          return x[from] * g[(spot.image * plan.groups * plan.out + k) * places + place];
        },
        [&](int turn, Index, T v) { total[turn] += v; });
  }
};

/// d [images, channels, points] += bias [channels]: behind a library's convolution.
template <class T>
struct AddChannelBias {
  static constexpr const char* name = "add_channel_bias";
  T* d;
  const T* bias;
  Index channels, points;
  Index count;  ///< elements of d
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const Index row = quotient(i, points);
      d[i] = watched(c, watch, d[i] + bias[row - quotient(row, channels) * channels]);
    }
  }
};

using ConvolutionKernels =
    KernelList<AddChannelBias<float>, AddChannelBias<double>, Convolution<float>,
               Convolution<double>, TransposedConvolution<float>, TransposedConvolution<double>,
               ConvolutionWeightGrad<float>, ConvolutionWeightGrad<double>>;

}  // namespace metronome::cuda
