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
  int groups, in, out;  ///< groups, and channels and outputs of each
  int input[3], kernel[3], output[3], stride[3], dilation[3], low[3];
  /// From one element of the kernel that lies on an element of the input to the next, and by how
  /// many places less.
  int next[3], back[3];

  METRONOME_DEVICE Index points() const { return Index(input[0]) * input[1] * input[2]; }
  METRONOME_DEVICE Index taps() const { return Index(kernel[0]) * kernel[1] * kernel[2]; }
  METRONOME_DEVICE Index places() const { return Index(output[0]) * output[1] * output[2]; }
  /// Where, in dimension d, the kernel's element j lies on the input at place o.
  METRONOME_DEVICE int under(int d, int o, int j) const {
    return o * stride[d] + j * dilation[d] - low[d];
  }
};

/// An element of an image: its image, its channel among all, and three coordinates.
struct ConvolutionSpot {
  Index image;
  int channel, at[3];

  METRONOME_DEVICE ConvolutionSpot(Index i, int channels, const int (&size)[3]) {
    METRONOME_UNROLL
    for (int d = 2; d >= 0; --d) {
      const Index next = quotient(i, size[d]);
      at[d] = static_cast<int>(i - next * size[d]);
      i = next;
    }
    image = quotient(i, channels);
    channel = static_cast<int>(i - image * channels);
  }

  /// Goes on by another, which is smaller than the size in each coordinate; of one channel.
  METRONOME_DEVICE void add(const ConvolutionSpot& step, const int (&size)[3]) {
    int carry = 0;
    METRONOME_UNROLL
    for (int d = 2; d >= 0; --d) {
      at[d] += step.at[d] + carry;
      carry = at[d] >= size[d] ? 1 : 0;
      if (carry != 0) at[d] -= size[d];
    }
    image += step.image + carry;
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
    const int group = spot.channel / plan.out;
    const T* from = x + (spot.image * plan.groups + group) * plan.in * plan.points();
    const T* w = weight + Index(spot.channel) * plan.in * plan.taps();
    T total = bias != nullptr ? bias[spot.channel] : T(0);
    METRONOME_ROLLED
    for (int channel = 0; channel < plan.in; ++channel) {
      METRONOME_ROLLED
      for (int a = 0; a < plan.kernel[0]; ++a) {
        const int z = plan.under(0, spot.at[0], a);
        if (z < 0 || z >= plan.input[0]) continue;
        METRONOME_ROLLED
        for (int b = 0; b < plan.kernel[1]; ++b) {
          const int v = plan.under(1, spot.at[1], b);
          if (v < 0 || v >= plan.input[1]) continue;
          const T* const row = from + (Index(z) * plan.input[1] + v) * plan.input[2];
          const T* const taps = w + (Index(a) * plan.kernel[1] + b) * plan.kernel[2];
          for (int e = 0; e < plan.kernel[2]; ++e) {
            const int u = plan.under(2, spot.at[2], e);
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

  /// The kernel's elements that lie on an element of the input: the first, and its place; those
  /// after it follow by `plan.next`, at places lower by `plan.back`.
  struct Taps {
    int first, place;
  };
  METRONOME_DEVICE Taps taps(int d, int i) const {
    int first = 0, from_low = i + plan.low[d];
    // As many turns as a stride is long, at most.
    while (first < plan.kernel[d] && from_low % plan.stride[d] != 0) {
      ++first;
      from_low -= plan.dilation[d];
    }
    return {from_low < 0 ? plan.kernel[d] : first, from_low / plan.stride[d]};
  }

  METRONOME_DEVICE T sum(const ConvolutionSpot& spot) const {
    const int group = spot.channel / plan.in, channel = spot.channel - group * plan.in;
    const T* from = y + (spot.image * plan.groups + group) * plan.out * plan.places();
    const T* w = weight + (Index(group) * plan.out * plan.in + channel) * plan.taps();
    T total = bias != nullptr ? bias[spot.channel] : T(0);
    const Taps planes = taps(0, spot.at[0]), rows = taps(1, spot.at[1]), line = taps(2, spot.at[2]);
    METRONOME_ROLLED
    for (int k = 0; k < plan.out; ++k) {
      int z = planes.place;
      METRONOME_ROLLED
      for (int a = planes.first; a < plan.kernel[0] && z >= 0; a += plan.next[0]) {
        const int plane = z;
        z -= plan.back[0];
        if (plane >= plan.output[0]) continue;
        int v = rows.place;
        METRONOME_ROLLED
        for (int b = rows.first; b < plan.kernel[1] && v >= 0; b += plan.next[1]) {
          const int at = v;
          v -= plan.back[1];
          if (at >= plan.output[1]) continue;
          const T* const row = from + (Index(plane) * plan.output[1] + at) * plan.output[2];
          const T* const taps = w + (Index(a) * plan.kernel[1] + b) * plan.kernel[2];
          int u = line.place;
          for (int e = line.first; e < plan.kernel[2] && u >= 0; e += plan.next[2]) {
            if (u < plan.output[2]) total = fma_of(row[u], taps[e], total);
            u -= plan.back[2];
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
    // `walk` asks for one after the other.
    ConvolutionSpot spot(team.rank, 1, plan.output);
    const ConvolutionSpot step(team.size, 1, plan.output);
    walk<T>(
        team.rank, team.size, images * places,
        [&](Index at) {
          Index from = spot.image * plan.groups * plan.in + channel;
          bool inside = true;
          METRONOME_UNROLL
          for (int d = 0; d < 3; ++d) {
            const int under = plan.under(d, spot.at[d], tap.at[d]);
            inside = inside && under >= 0 && under < plan.input[d];
            from = from * plan.input[d] + under;
          }
          const Index image = spot.image;
          spot.add(step, plan.output);
          if (!inside) return T(0);
          const Index place = at - image * places;
          return x[from] * g[(image * plan.groups * plan.out + k) * places + place];
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
