// Convolutions element by element. Sums have one order, so the same bits every time.
//
//   Convolution, and    a block: four channels of the result at as many places as it has threads
//   its transpose       a thread: one place; each number that it reads serves its four channels
//                       weights: staged in shared memory, for as many source channels at a time
//                       as fit there
//   ...WeightGrad       a team of threads for each element of the weight: it shares out all images
//                       and places, and joins its sums in a tree
//
// Channels may lie last in all tensors: `ConvolutionPlan::channels_last`, in the steps from one
// channel, place or tap to the next.
//
// The transposed form looks for the kernel's elements that lie on an element of the input. They are
// `next` apart, so most of the kernel is never looked at if the stride is large. JoinWeightGrad and
// AddChannelBias finish what a library's kernels leave.
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
  bool channels_last;  ///< images [N, spatial..., C], the weight [K, kernel..., C]

  METRONOME_DEVICE Index points() const { return Index(input[0]) * input[1] * input[2]; }
  METRONOME_DEVICE Index taps() const { return Index(kernel[0]) * kernel[1] * kernel[2]; }
  METRONOME_DEVICE Index places() const { return Index(output[0]) * output[1] * output[2]; }
  /// From one channel, and from one place, to the next in an image of so many.
  METRONOME_DEVICE Index channel_step(Index places_of_image) const {
    return channels_last ? 1 : places_of_image;
  }
  METRONOME_DEVICE Index place_step(Index channels) const { return channels_last ? channels : 1; }
  /// The same in one output's weight.
  METRONOME_DEVICE Index weight_step() const { return channels_last ? 1 : taps(); }
  METRONOME_DEVICE int tap_step() const { return channels_last ? in : 1; }
  /// The input's element, in dimension d, under the kernel's element j at place o.
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

/// Channels of a result that a thread makes at one place: each number that it reads serves all.
constexpr int kChannels = 4;

/// The channels of a result that a block makes at its threads' places: `count` from `first` of a
/// group.
struct ChannelSet {
  int group, first, count;

  METRONOME_DEVICE ChannelSet(int index, int channels) {
    const int of_group = (channels + kChannels - 1) / kChannels;
    group = index / of_group;
    first = (index - group * of_group) * kChannels;
    count = channels - first < kChannels ? channels - first : kChannels;
  }
};

/// Weights of a set of channels, each from all taps of all sources: channels of the operand.
template <class T>
struct ChannelWeights {
  const T* from;
  Index channel_step, source_step;
  int tap_step, taps;
};

/// Some of them in shared memory, the set's channels side by side.
template <class T>
struct StagedWeights {
  const T* from;
  int taps;

  METRONOME_DEVICE T at(int tap, int channel) const { return from[tap * kChannels + channel]; }
  METRONOME_DEVICE void next_source() { from += taps * kChannels; }
};

/// For weights of one source that are too many for shared memory.
template <class T>
struct DirectWeights {
  ChannelWeights<T> all;
  int last;  ///< channel of the set

  METRONOME_DEVICE T at(int tap, int channel) const {
    return all.from[(channel < last ? channel : last) * all.channel_step + tap * all.tap_step];
  }
  METRONOME_DEVICE void next_source() { all.from += all.source_step; }
};

/// add(weights, begin, end) for sources of `sources`, in order; of a thread without a place only
/// the stages are made. `chunk`: sources whose weights shared memory holds; 0: none.
template <class T, class Context, class Add>
METRONOME_DEVICE void for_weights(Context& c, const ChannelWeights<T>& weights, int channels,
                                  int sources, int chunk, bool adds, const Add& add) {
  if (chunk == 0) {
    if (adds) add(DirectWeights<T>{weights, channels - 1}, 0, sources);
    return;
  }
  T* const stage = reinterpret_cast<T*>(c.shared());
  METRONOME_ROLLED
  for (int begin = 0; begin < sources; begin += chunk) {
    const int end = begin + chunk < sources ? begin + chunk : sources;
    c.barrier();  // the stage before was read
    const int count = (end - begin) * weights.taps * kChannels;
    METRONOME_ROLLED
    for (int i = c.thread(); i < count; i += c.threads()) {
      const int channel = i % kChannels, tap_of_all = i / kChannels;
      const int source = tap_of_all / weights.taps, tap = tap_of_all - source * weights.taps;
      stage[i] = channel < channels
                     ? weights.from[channel * weights.channel_step +
                                    (begin + source) * weights.source_step + tap * weights.tap_step]
                     : T(0);
    }
    c.barrier();
    if (adds) add(StagedWeights<T>{stage, weights.taps}, begin, end);
  }
}

/// The common part of both ways of a convolution: blocks, each for a set of channels at as many
/// places as it has threads.
template <class T>
struct ChannelBlocks {
  const T* from;
  const T* weight;
  const T* bias;  ///< may be null
  T* to;
  ConvolutionPlan plan;
  Index places;  ///< of all images
  Index blocks;  ///< of all channels at all places; those of the same places are neighbours
  int chunk;     ///< as of `for_weights`
  Watch watch;

  /// make(spot, set, real, total) adds to `total` what a set's channels are at a spot of an image
  /// of `size`; where the spot is not real, beyond the last, it takes part in barriers only.
  template <class Context, class Make>
  METRONOME_DEVICE void run(Context& c, int channels, const int (&size)[3],
                            const Make& make) const {
    const int sets = plan.groups * ((channels + kChannels - 1) / kChannels);
    const Index points = Index(size[0]) * size[1] * size[2];
    const Index channel_step = plan.channel_step(points);
    const Index place_step = plan.place_step(Index(plan.groups) * channels);
    for (Index block = c.block(); block < blocks; block += c.blocks()) {
      const Index tile = quotient(block, sets);
      const ChannelSet set(static_cast<int>(block - tile * sets), channels);
      const Index place = tile * c.threads() + c.thread();
      const bool real = place < places;
      const ConvolutionSpot spot(real ? place : 0, 1, size);
      T total[kChannels];
      METRONOME_UNROLL
      for (int k = 0; k < kChannels; ++k) {
        const bool biased = bias != nullptr && k < set.count;
        total[k] = biased ? bias[set.group * channels + set.first + k] : T(0);
      }
      make(spot, set, real, total);
      if (!real) continue;
      T* const y = to + spot.image * plan.groups * channels * points +
                   Index(set.group * channels + set.first) * channel_step +
                   (place - spot.image * points) * place_step;
      METRONOME_UNROLL
      for (int k = 0; k < kChannels; ++k) {
        if (k < set.count) y[k * channel_step] = watch_number(c, watch, total[k]);
      }
    }
  }
};

/// y = convolution(x, weight) + bias.
template <class T>
struct Convolution {
  static constexpr const char* name = "convolution";
  ChannelBlocks<T> of;  ///< from x to y

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const ConvolutionPlan& plan = of.plan;
    const Index taps = plan.taps();
    of.run(
        c, plan.out, plan.output,
        [&](const ConvolutionSpot& spot, const ChannelSet& set, bool real, T(&total)[kChannels]) {
          const Index first = Index(set.group) * plan.out + set.first;
          const ChannelWeights<T> weights{of.weight + first * plan.in * taps, plan.in * taps,
                                          plan.weight_step(), plan.tap_step(),
                                          static_cast<int>(taps)};
          const T* const image = of.from + spot.image * plan.groups * plan.in * plan.points() +
                                 Index(set.group) * plan.in * plan.channel_step(plan.points());
          for_weights(c, weights, set.count, plan.in, of.chunk, real,
                      [&](auto staged, int begin, int end) {
                        add(spot, image, staged, begin, end, total);
                      });
        });
  }

  template <class Weights>
  METRONOME_DEVICE void add(const ConvolutionSpot& spot, const T* image, Weights weights, int begin,
                            int end, T (&total)[kChannels]) const {
    const ConvolutionPlan& plan = of.plan;
    const Index channel_step = plan.channel_step(plan.points());
    const Index place_step = plan.place_step(Index(plan.groups) * plan.in);
    METRONOME_ROLLED
    for (int channel = begin; channel < end; ++channel) {
      const T* const from = image + channel * channel_step;
      METRONOME_ROLLED
      for (int a = 0; a < plan.kernel[0]; ++a) {
        const int z = plan.under(0, spot.at[0], a);
        if (z < 0 || z >= plan.input[0]) continue;
        METRONOME_ROLLED
        for (int b = 0; b < plan.kernel[1]; ++b) {
          const int v = plan.under(1, spot.at[1], b);
          if (v < 0 || v >= plan.input[1]) continue;
          const T* const row = from + (Index(z) * plan.input[1] + v) * plan.input[2] * place_step;
          const int tap = (a * plan.kernel[1] + b) * plan.kernel[2];
          METRONOME_ROLLED
          for (int e = 0; e < plan.kernel[2]; ++e) {
            const int u = plan.under(2, spot.at[2], e);
            if (u < 0 || u >= plan.input[2]) continue;
            const T number = row[u * place_step];
            METRONOME_UNROLL
            for (int k = 0; k < kChannels; ++k) {
              total[k] = fma_of(number, weights.at(tap + e, k), total[k]);
            }
          }
        }
      }
      weights.next_source();
    }
  }
};

/// x = transposed_convolution(y, weight) + bias.
template <class T>
struct TransposedConvolution {
  static constexpr const char* name = "transposed_convolution";
  ChannelBlocks<T> of;  ///< from y to x

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const ConvolutionPlan& plan = of.plan;
    const Index taps = plan.taps();
    of.run(
        c, plan.in, plan.input,
        [&](const ConvolutionSpot& spot, const ChannelSet& set, bool real, T(&total)[kChannels]) {
          const Index output = Index(set.group) * plan.out;
          const ChannelWeights<T> weights{
              of.weight + output * plan.in * taps + set.first * plan.weight_step(),
              plan.weight_step(), plan.in * taps, plan.tap_step(), static_cast<int>(taps)};
          const T* const image = of.from + spot.image * plan.groups * plan.out * plan.places() +
                                 output * plan.channel_step(plan.places());
          for_weights(c, weights, set.count, plan.out, of.chunk, real,
                      [&](auto staged, int begin, int end) {
                        add(spot, image, staged, begin, end, total);
                      });
        });
  }

  /// The kernel's elements that lie on an element of the input: the first, and its place; those
  /// after it follow by `plan.next`, at places lower by `plan.back`.
  struct Taps {
    int first, place;
  };
  METRONOME_DEVICE Taps taps(int d, int i) const {
    const ConvolutionPlan& plan = of.plan;
    int first = 0, from_low = i + plan.low[d];
    // As many turns as a stride is long, at most.
    while (first < plan.kernel[d] && from_low % plan.stride[d] != 0) {
      ++first;
      from_low -= plan.dilation[d];
    }
    return {from_low < 0 ? plan.kernel[d] : first, from_low / plan.stride[d]};
  }

  template <class Weights>
  METRONOME_DEVICE void add(const ConvolutionSpot& spot, const T* image, Weights weights, int begin,
                            int end, T (&total)[kChannels]) const {
    const ConvolutionPlan& plan = of.plan;
    const Taps planes = taps(0, spot.at[0]), rows = taps(1, spot.at[1]), line = taps(2, spot.at[2]);
    const Index channel_step = plan.channel_step(plan.places());
    const Index place_step = plan.place_step(Index(plan.groups) * plan.out);
    METRONOME_ROLLED
    for (int source = begin; source < end; ++source) {
      const T* const from = image + source * channel_step;
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
          const T* const row =
              from + (Index(plane) * plan.output[1] + at) * plan.output[2] * place_step;
          const int tap = (a * plan.kernel[1] + b) * plan.kernel[2];
          int u = line.place;
          METRONOME_ROLLED
          for (int e = line.first; e < plan.kernel[2] && u >= 0; e += plan.next[2]) {
            const int here = u;
            u -= plan.back[2];
            if (here >= plan.output[2]) continue;
            const T number = row[here * place_step];
            METRONOME_UNROLL
            for (int k = 0; k < kChannels; ++k) {
              total[k] = fma_of(number, weights.at(tap + e, k), total[k]);
            }
          }
        }
      }
      weights.next_source();
    }
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
      const T sum = reduce<Sum>(c, team, join_all<Sum>(total));
      if (team.rank == 0 && i < count) weight[i] = watch_number(c, watch, sum);
    }
  }

  METRONOME_DEVICE void add(const Team& team, Index i, T (&total)[kTogether]) const {
    // The first two dimensions of a weight [groups x out, in, kernel...] stand for an image's.
    const ConvolutionSpot tap(plan.channels_last ? declared(i) : i, plan.in, plan.kernel);
    const Index k = tap.image, group = quotient(k, plan.out);
    const Index channel = group * plan.in + tap.channel;
    const Index places = plan.places(), points = plan.points();
    const Index channels = Index(plan.groups) * plan.in, outputs = Index(plan.groups) * plan.out;
    const Index x_step = plan.place_step(channels), g_step = plan.place_step(outputs);
    const T* const of_channel = x + channel * plan.channel_step(points);
    const T* const of_output = g + k * plan.channel_step(places);
    // `walk` asks for one after the other.
    ConvolutionSpot spot(team.rank, 1, plan.output);
    const ConvolutionSpot step(team.size, 1, plan.output);
    walk<T>(
        team.rank, team.size, images * places,
        [&](Index at) {
          Index from = 0;
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
          return of_channel[image * channels * points + from * x_step] *
                 of_output[image * outputs * places + place * g_step];
        },
        [&](int turn, Index, T v) { total[turn] += v; });
  }

  /// The place in a weight as it is declared of element i of one whose channels lie last.
  METRONOME_DEVICE Index declared(Index i) const {
    const Index tap = quotient(i, plan.in), taps = plan.taps(), output = quotient(tap, taps);
    return (output * plan.in + (i - tap * plan.in)) * taps + (tap - output * taps);
  }
};

/// A weight's gradient [count] from the parts [parts, count] that a library made of each sum.
template <class T>
struct JoinWeightGrad {
  static constexpr const char* name = "join_weight_grad";
  const T* part;
  T* weight;
  Index count;
  int parts, unused;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      double sum = 0;
      for (int k = 0; k < parts; ++k) sum += double(part[k * count + i]);
      weight[i] = watch_number(c, watch, T(sum));
    }
  }
};

/// d [images, channels, points] += bias [channels]: behind a library's convolution. Each place is
/// an image of one point if channels lie last.
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
      d[i] = watch_number(c, watch, d[i] + bias[row - quotient(row, channels) * channels]);
    }
  }
};

using ConvolutionKernels =
    KernelList<AddChannelBias<float>, AddChannelBias<double>, Convolution<float>,
               Convolution<double>, TransposedConvolution<float>, TransposedConvolution<double>,
               ConvolutionWeightGrad<float>, ConvolutionWeightGrad<double>, JoinWeightGrad<float>,
               JoinWeightGrad<double>>;

}  // namespace metronome::cuda
