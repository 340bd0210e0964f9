// Positions to rows, an element by a thread.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/shuffle.h"

namespace metronome::cuda {

struct ShufflePositions {
  static constexpr const char* name = "shuffle";
  long long* to;
  const long long* seed;
  const long long* positions;
  unsigned long long key, rows;
  Index count;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const auto s = static_cast<unsigned long long>(*seed);
    for (Index i = first(c); i < count; i += stride(c)) {
      const auto position = static_cast<unsigned long long>(positions[i]);
      const ShuffledOrder order(s, key, position / rows, rows);
      to[i] = static_cast<long long>(order.at(position % rows));
    }
  }
};

using ShuffleKernels = KernelList<ShufflePositions>;

}  // namespace metronome::cuda
