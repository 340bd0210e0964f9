// Random numbers, an element by a thread.
#pragma once

#include "ops/kernel/draws.h"
#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

template <class T>
struct RandomDraw {
  static constexpr const char* name = "random";
  T* to;
  const long long* seed;
  const long long* draws;
  DrawRule rule;
  unsigned long long key, begin;
  Index count;
  DrawLimits<T> limits;
  Lookups lookups;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const auto s = static_cast<unsigned long long>(*seed);
    const auto d = static_cast<unsigned long long>(*draws);
    for (Index i = first(c); i < count; i += stride(c)) {
      if (limits.refuse(i)) report(c, lookups, order_of(limits.numbers[i]));
      to[i] = drawn(rule, s, d, key, begin + static_cast<unsigned long long>(i), to);
    }
  }
};

using RandomKernels = KernelList<RandomDraw<float>, RandomDraw<double>>;

}  // namespace metronome::cuda
