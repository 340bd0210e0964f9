// Kernels of guarded regions: what decides them and what joins their results.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// T: bool, int or long long.
template <class T>
struct Guard {
  static constexpr const char* name = "guard";
  bool* to;
  const T* decider;
  const bool* parent;  ///< null: none
  long long when;
  long long last;   ///< of the cases
  Lookups lookups;  ///< told of an outcome that is no case

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (first(c) != 0) return;
    if (parent != nullptr && !*parent) {
      *to = false;
      return;
    }
    long long outcome = static_cast<long long>(*decider);
    if (outcome < 0 || outcome > last) report(c, lookups, outcome);
    outcome = outcome < 0 ? 0 : outcome > last ? last : outcome;
    *to = outcome == when;
  }
};

/// T stands for elements of its size.
template <class T>
struct Merge {
  static constexpr const char* name = "merge";
  static constexpr int kMost = 64;  ///< branches
  T* to;
  const T* otherwise;  ///< null: zero
  Index count;
  int branches;
  const bool* guards[kMost];
  const T* values[kMost];

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const T* from = otherwise;
    for (int k = branches; k-- > 0;) {
      if (*guards[k]) from = values[k];
    }
    if (from == to) return;
    for (Index i = first(c); i < count; i += stride(c)) to[i] = from == nullptr ? T(0) : from[i];
  }
};

template <class T>
struct AccumulateIf {
  static constexpr const char* name = "accumulate_if";
  T* to;
  const T* sum;  ///< may be `to`
  const T* contribution;
  const bool* guard;
  Index count;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (*guard) {
      for (Index i = first(c); i < count; i += stride(c)) {
        to[i] = watch_number(c, watch, T(sum[i] + contribution[i]));
      }
    } else if (to != sum) {
      for (Index i = first(c); i < count; i += stride(c)) {
        to[i] = watch_number(c, watch, sum[i]);
      }
    }
  }
};

using GuardedKernels =
    KernelList<Guard<bool>, Guard<int>, Guard<long long>, Merge<Unit1>, Merge<Unit2>, Merge<Unit4>,
               Merge<Unit8>, AccumulateIf<float>, AccumulateIf<double>, AccumulateIf<BFloat16>,
               AccumulateIf<Float16>>;

}  // namespace metronome::cuda
