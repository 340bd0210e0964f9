// The kernels beside the library's products: a bias, and products that are too small for it.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// d [rows, columns] += bias [columns], `kEach` neighbours at a time.
template <class T, int kEach>
struct AddBias {
  static constexpr const char* name = "add_bias";
  T* d;
  const T* bias;
  Index count;  ///< of packs in d
  Index width;  ///< packs of a row
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    using Elements = Pack<T, kEach>;
    auto* sums = reinterpret_cast<Elements*>(d);
    const auto* terms = reinterpret_cast<const Elements*>(bias);
    const Index step = stride(c) - quotient(stride(c), width) * width;
    Index column = first(c) - quotient(first(c), width) * width;
    for (Index i = first(c); i < count; i += stride(c)) {
      Elements sum = sums[i];
      const Elements term = terms[column];
      for (int k = 0; k < kEach; ++k) sum.v[k] = watch_number(c, watch, sum.v[k] + term.v[k]);
      sums[i] = sum;
      column += step;
      if (column >= width) column -= width;
    }
  }
};

/// d = op(a) op(b) (+ sum) (+ bias): each number of d is made by a team of lanes, which share out
/// its k products.
template <class T>
struct SmallProduct {
  static constexpr const char* name = "small_product";
  /// Elements from one row or column of an operand to the next, and from one product of the sum
  /// over k; from one matrix of a batch to the next.
  struct Steps {
    Index line, along, matrix;
  };
  const T* a;
  const T* b;
  const T* sum;   ///< laid out as d; or null
  const T* bias;  ///< [n]; or null
  T* d;
  int count;  ///< batch * m * n
  int m, n, k;
  Steps of_a, of_b;
  Index matrix;  ///< elements of d from one matrix to the next
  int lanes;     ///< of a team: a power of two up to 32
  Watch watch;

  struct Factors {
    T a, b;
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int rank = c.thread() % lanes, teams = c.threads() / lanes;
    // All lanes of a warp take part in each turn, also those beyond the last number.
    for (int begin = c.block() * teams; begin < count; begin += c.blocks() * teams) {
      const int at = begin + c.thread() / lanes;
      const bool there = at < count;
      const int line = there ? at / n : 0, column = there ? at - line * n : 0;
      const int index = line / m, row = line - index * m;
      const T* const from_a = a + index * of_a.matrix + row * of_a.line;
      const T* const from_b = b + index * of_b.matrix + column * of_b.line;
      T total[kTogether] = {};
      walk<Factors>(
          rank, lanes, there ? k : 0,
          [&](Index i) { return Factors{from_a[i * of_a.along], from_b[i * of_b.along]}; },
          [&](int each, Index, Factors v) { total[each] = fma_of(v.a, v.b, total[each]); });
      T product = join_all<Sum>(total);
      for (int mask = lanes / 2; mask > 0; mask /= 2) product += c.shuffle_xor(product, mask);
      if (!there || rank != 0) continue;
      const Index to = index * matrix + (row * n + column);
      if (sum != nullptr) product += sum[to];
      if (bias != nullptr) product += bias[column];
      d[to] = watch_number(c, watch, product);
    }
  }
};

using MatmulKernels = KernelList<AddBias<float, 1>, AddBias<float, 4>, AddBias<double, 1>,
                                 AddBias<double, 2>, SmallProduct<float>, SmallProduct<double>>;

}  // namespace metronome::cuda
