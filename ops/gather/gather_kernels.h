// Elements of one axis by index, and sums into it by index.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// An index [outer, count, inner] along an axis of x (ops/gather/index_walk.h).
struct AxisIndex {
  Index outer, count, inner;
  Index size, step;  ///< of x along the axis
  Loops before, after;

  METRONOME_DEVICE bool has(Index at) const { return at >= 0 && at < size; }
  /// Returns the place in x where the line of column j under o begins.
  METRONOME_DEVICE Index origin(Index o, Index j) const {
    return before.offset(o) + after.offset(j);
  }
  /// Returns the place in x where a line begins; lines are counted over outer and inner.
  METRONOME_DEVICE Index origin(Index line) const {
    const Index o = quotient(line, inner);
    return origin(o, line - o * inner);
  }
  /// A line's first element in the index; the next ones lie `inner` apart.
  METRONOME_DEVICE Index first_of(Index line) const {
    const Index o = quotient(line, inner);
    return o * count * inner + line - o * inner;
  }
};

/// I: of the index.
template <class Unit, class I>
struct Gather {
  static constexpr const char* name = "gather";
  Unit* to;
  const Unit* from;
  const I* index;
  AxisIndex along;
  Lookups lookups;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const Index elements = along.outer * along.count * along.inner;
    for (Index i = first(c); i < elements; i += stride(c)) {
      const Index row = quotient(i, along.inner), at = index[i];
      if (along.has(at)) {
        to[i] =
            from[along.origin(quotient(row, along.count), i - row * along.inner) + at * along.step];
      } else {
        to[i] = Unit(0);
        report(c, lookups, at);
      }
    }
  }
};

/// The arguments of both kernels below; `to` holds x when they begin.
template <class T, class I>
struct Scatter {
  T* to;
  const T* source;
  const I* index;
  AxisIndex along;
  Lookups lookups;
  Watch watch;
};

/// A thread has a line and adds its elements in order.
template <class T, class I>
struct ScatterAddLines {
  static constexpr const char* name = "scatter_add";
  Scatter<T, I> s;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const AxisIndex& along = s.along;
    for (Index line = first(c); line < along.outer * along.inner; line += stride(c)) {
      T* const sums = s.to + along.origin(line);
      const Index begin = along.first_of(line);
      for (Index k = 0; k < along.count; ++k) {
        const Index i = begin + k * along.inner, at = s.index[i];
        if (along.has(at)) {
          sums[at * along.step] += s.source[i];
        } else {
          report(c, s.lookups, at);
        }
      }
      if (s.watch.met == nullptr) continue;
      for (Index at = 0; at < along.size; ++at) watch_number(c, s.watch, sums[at * along.step]);
    }
  }
};

/// A warp has 32 places of a line, a lane each. It reads the line's whole index, 32 at a time, and
/// votes on who has one of its places: for few lines, whose sums many threads share.
template <class T, class I>
struct ScatterAddPlaces {
  static constexpr const char* name = "scatter_add";
  Scatter<T, I> s;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const AxisIndex& along = s.along;
    const Index groups = quotient(along.size + kWarp - 1, kWarp);
    const Index units = along.outer * along.inner * groups, warps = stride(c) / kWarp;
    for (Index unit = first(c) / kWarp; unit < units; unit += warps) {
      const Index line = quotient(unit, groups);
      add(c, line, (unit - line * groups) * kWarp);
    }
  }

 private:
  template <class Context>
  METRONOME_DEVICE void add(Context& c, Index line, Index place0) const {
    const AxisIndex& along = s.along;
    const int lane = c.thread() % kWarp;
    const Index begin = along.first_of(line), place = place0 + lane;
    T* const own = s.to + along.origin(line) + place * along.step;
    T sum = place < along.size ? *own : T(0);
    for (Index base = 0; base < along.count; base += kWarp) {
      const Index k = base + lane;
      const Index at = k < along.count ? Index(s.index[begin + k * along.inner]) : place0;
      // The warp of the line's first places tells for all.
      if (place0 == 0 && !along.has(at)) report(c, s.lookups, at);
      const bool hit = k < along.count && along.has(at) && at >= place0 && at < place0 + kWarp;
      const int mine = hit ? int(at - place0) : -1;
      for (unsigned votes = c.ballot(hit); votes != 0; votes &= votes - 1) {
        const int from = lowest_bit(votes);
        if (c.shuffle(mine, from) == lane) sum += s.source[begin + (base + from) * along.inner];
      }
    }
    if (place < along.size) *own = watch_number(c, s.watch, sum);
  }
};

template <class... Ts>
using ScattersOf = KernelList<ScatterAddLines<Ts, int>..., ScatterAddLines<Ts, long long>...,
                              ScatterAddPlaces<Ts, int>..., ScatterAddPlaces<Ts, long long>...>;

using GatherKernels = typename JoinedList<
    KernelList<Gather<Unit1, int>, Gather<Unit1, long long>, Gather<Unit2, int>,
               Gather<Unit2, long long>, Gather<Unit4, int>, Gather<Unit4, long long>,
               Gather<Unit8, int>, Gather<Unit8, long long>>,
    ScattersOf<float, double, int, long long>>::type;

}  // namespace metronome::cuda
