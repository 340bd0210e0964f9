// Linear maps along up to three dimensions (ops/bands/bands.h): averages, interpolation, gradients.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// The tables of a map, in device memory.
struct BandTable {
  Index in, out;
  Index step;
  const int* begin;
  const int* count;
  const int* at;
  const double* weight;
};

/// A thread makes one result: it sums the operand's columns in f64, then over them, as a CPU does.
template <class T>
struct Bands {
  static constexpr const char* name = "bands";
  const T* x;
  T* y;
  BandTable depth, height, width;
  Index inner;  ///< channels that are stored last; else 1
  Index count;  ///< of results
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const PlacedIn at(i, inner, depth.out, height.out, width.out);
      const Index planes = at.plane * depth.in * height.in * width.in;
      const T* const from = x + (planes + width.begin[at.w]) * inner + at.channel;
      double sum = 0;
      for (int k = 0; k < width.count[at.w]; ++k) {
        sum += width.weight[width.at[at.w] + k * width.step] * column(from + k * inner, at.d, at.h);
      }
      y[i] = watch_number(c, watch, T(sum));
    }
  }

 private:
  METRONOME_DEVICE double column(const T* from, Index d, Index h) const {
    double sum = 0;
    for (int i = 0; i < depth.count[d]; ++i) {
      const double of_slab = depth.weight[depth.at[d] + i * depth.step];
      for (int j = 0; j < height.count[h]; ++j) {
        const double weight = of_slab * height.weight[height.at[h] + j * height.step];
        const Index line = (depth.begin[d] + i) * height.in + height.begin[h] + j;
        sum += weight * double(from[line * width.in * inner]);
      }
    }
    return sum;
  }
};

using BandsKernels = KernelList<Bands<float>, Bands<double>>;

}  // namespace metronome::cuda
