// Functions that generated sources call for each element: the rows of the table of elementwise
// functions, of single numbers, and the ops of one element that are no rows.
#pragma once

#include "ops/kernel/formulas.h"
#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/philox.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

// row_gelu<float>(x), row_add<float>(x, y), row_clamp<float>(x, 0, 0, a, b): V is the type of all
// operands but the condition of `where`.
#define METRONOME_ROW(function, operands, elements, numbers, text, ...)                        \
  template <class V, class X>                                                                  \
  METRONOME_DEVICE auto row_##function(X x, [[maybe_unused]] V y = V(),                        \
                                       [[maybe_unused]] V z = V(), [[maybe_unused]] V a = V(), \
                                       [[maybe_unused]] V b = V()) {                           \
    using namespace formula;                                                                   \
    return text;                                                                               \
  }
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW

/// Element i of a dropout (ops/dropout/dropout.h).
template <class T>
METRONOME_DEVICE T drop(long long seed, long long replay, unsigned long long key, Index i, T x,
                        float p, T scale) {
  const auto place = static_cast<unsigned long long>(i);
  const unsigned bits = philox(static_cast<unsigned long long>(seed),
                               static_cast<unsigned long long>(replay), key, place / 4)[place % 4];
  return uniform(bits) >= p ? x * scale : T(0);  // what is dropped may be infinite
}

/// kCount neighbouring elements, where their address is a multiple of their bytes together.
template <int kCount, class T>
METRONOME_DEVICE Pack<T, kCount> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, kCount>*>(p);
}
template <int kCount, class T>
METRONOME_DEVICE void store_pack(T* p, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(p) = pack;
}

}  // namespace metronome::cuda
