// Reductions over any axes. Neighbouring dimensions that are both reduced or both kept are one
// loop. If the last loop is reduced, threads share out runs (`ReduceRuns`); if it is kept, they
// share out columns and read neighbours (`ReduceColumns`). If results are few and long, parts of
// each are reduced into scratch and joined by `ReduceParts`. Sums of floating numbers are made in
// double.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// The type in which sums are made. Integers wrap around.
template <class T>
struct SumType {
  using type = unsigned long long;
};
template <>
struct SumType<float> {
  using type = double;
};
template <>
struct SumType<double> {
  using type = double;
};

/// A kind of reduction of elements T: what one element counts for, how two are joined, and the
/// result made of their total.
template <class T>
struct AddFold {  // sum and mean
  static constexpr const char* name = "sum";
  using Element = T;
  using Total = typename SumType<T>::type;
  using How = Sum;
  static METRONOME_DEVICE Total of(T x) { return static_cast<Total>(x); }
  static METRONOME_DEVICE T result(Total total, double divisor) {
    if constexpr (T(0.5) != T(0)) {  // floating types
      return static_cast<T>(total / divisor);
    } else {
      return static_cast<T>(total);
    }
  }
};

template <class T>
struct SquaresFold {
  static constexpr const char* name = "sum_squares";
  using Element = T;
  using Total = double;
  using How = Sum;
  static METRONOME_DEVICE double of(T x) { return double(x) * double(x); }
  static METRONOME_DEVICE T result(double total, double) { return static_cast<T>(total); }
};

template <class T>
struct NormFold : SquaresFold<T> {
  static constexpr const char* name = "norm";
  static METRONOME_DEVICE T result(double total, double) { return static_cast<T>(sqrt_of(total)); }
};

template <class T>
struct MaxFold {
  static constexpr const char* name = "max";
  using Element = T;
  using Total = T;
  using How = Max;
  static METRONOME_DEVICE T of(T x) { return x; }
  static METRONOME_DEVICE T result(T total, double) { return total; }
};

template <class T>
struct MinFold {
  static constexpr const char* name = "min";
  using Element = T;
  using Total = T;
  using How = Min;
  static METRONOME_DEVICE T of(T x) { return x; }
  static METRONOME_DEVICE T result(T total, double) { return total; }
};

/// The destination of totals: the results, or scratch for parts of them.
template <class Fold>
struct ReduceTarget {
  using Total = typename Fold::Total;
  typename Fold::Element* to;
  Total* partials;  ///< [parts][results]; null where a result is made at once
  double divisor;   ///< of a mean: the elements of each; else 1
  Index results;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void store(Context& c, Index part, Index result, Total total) const {
    if (partials != nullptr) {
      partials[part * results + result] = total;
    } else {
      to[result] = watch_number(c, watch, Fold::result(total, divisor));
    }
  }
};

/// All arguments of a reduction but its operand: the loops, and how threads share them out.
template <class Fold>
struct Reduction {
  ReduceTarget<Fold> target;
  Loops kept;     ///< over the results; for columns without their last loop
  Loops reduced;  ///< over a result's elements
  Index width;    ///< neighbouring columns; 1 for runs
  Index count;    ///< elements of a result
  Index part;     ///< of them at most so many at a time, fewer than 2^31: memory ends before
  Index parts;
  int sharing;  ///< runs: threads of a team; columns: columns of a tile
  StridedLoops
      strided;  ///< where two loops are reduced: they, as the threads of a result walk them
};

/// The elements [begin, begin + count) of a result, of which the first lies at `origin`, by
/// threads that share it (a Team or a Tile).
template <class Fold, class Context, class X, class Threads>
METRONOME_DEVICE typename Fold::Total reduce_part(Context& c, const X& x, Threads& threads,
                                                  const Reduction<Fold>& r, Index origin,
                                                  Index begin, Index count) {
  using Element = typename Fold::Element;
  using Total = typename Fold::Total;
  using How = typename Fold::How;
  Total totals[kTogether];
  METRONOME_UNROLL
  for (int k = 0; k < kTogether; ++k) totals[k] = How::template none<Total>();
  const auto use = [&](int k, Index, Element v) { totals[k] = How::join(totals[k], Fold::of(v)); };
  if (r.reduced.count == 2) {
    StridedPlaces steps(r.strided, begin + threads.rank);
    walk<Element>(
        threads.rank, threads.size, int(count),
        [&](Index) { return x.first(c, origin + steps.next()); }, use);
  } else {
    walk<Element>(
        threads.rank, threads.size, int(count),
        [&](Index i) { return x.first(c, origin + r.reduced.offset(begin + i)); }, use);
  }
  return reduce<How>(c, threads, join_all<How>(totals));
}

/// The last loop is reduced. Each element is read once, by `first`.
template <class Fold, class X = Load<typename Fold::Element>>
struct ReduceRuns {
  static constexpr const char* name = Fold::name;
  static constexpr const char* header = "ops/reduce/reduce_kernels.h";
  X x;
  Reduction<Fold> r;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Team team = make_team<typename Fold::Total>(c, r.sharing, 1);
    const Index teams = c.threads() / team.size, units = r.target.results * r.parts;
    // All teams of a block take part in each turn, also those beyond the last unit.
    for (Index at = Index(c.block()) * teams; at < units; at += Index(c.blocks()) * teams) {
      const Index unit = at + team.index;
      const bool there = unit < units;
      const Index part = there ? quotient(unit, r.target.results) : 0;
      const Index result = there ? unit - part * r.target.results : 0;
      const Index begin = part * r.part;
      const Index count = !there ? 0 : begin + r.part < r.count ? r.part : r.count - begin;
      const auto total = reduce_part<Fold>(c, x, team, r, r.kept.offset(result), begin, count);
      if (there && team.rank == 0) r.target.store(c, part, result, total);
    }
  }
};

/// The last loop is kept: `width` columns. Each element is read once, by `first`.
template <class Fold, class X = Load<typename Fold::Element>>
struct ReduceColumns {
  static constexpr const char* name = Fold::name;
  static constexpr const char* header = "ops/reduce/reduce_kernels.h";
  X x;
  Reduction<Fold> r;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Tile tile = make_tile<typename Fold::Total>(c, r.sharing, 1);
    const Index strips = quotient(r.width + tile.width - 1, tile.width);
    const Index rows = quotient(r.target.results, r.width), units = r.parts * rows * strips;
    for (Index unit = c.block(); unit < units; unit += c.blocks()) {
      const Index line = quotient(unit, strips), part = quotient(line, rows);
      const Index row = line - part * rows;
      const Index column = (unit - line * strips) * tile.width + tile.column;
      const bool there = column < r.width;
      const Index begin = part * r.part;
      const Index count = !there ? 0 : begin + r.part < r.count ? r.part : r.count - begin;
      const auto total =
          reduce_part<Fold>(c, x, tile, r, r.kept.offset(row) + column, begin, count);
      if (there && tile.rank == 0) r.target.store(c, part, row * r.width + column, total);
    }
  }
};

/// Joins parts.
template <class Fold>
struct ReduceParts {
  static constexpr const char* name = Fold::name;
  using Total = typename Fold::Total;
  using How = typename Fold::How;
  const Total* partials;  ///< [parts][results]
  Index parts;
  int tile;  ///< columns of a tile
  ReduceTarget<Fold> target;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Tile threads = make_tile<Total>(c, tile, 1);
    const Index step = Index(c.blocks()) * tile;
    for (Index begin = Index(c.block()) * tile; begin < target.results; begin += step) {
      const Index result = begin + threads.column;
      const bool there = result < target.results;
      Total totals[kTogether];
      METRONOME_UNROLL
      for (int k = 0; k < kTogether; ++k) totals[k] = How::template none<Total>();
      walk<Total>(
          threads.rank, threads.size, there ? parts : 0,
          [&](Index p) { return partials[p * target.results + result]; },
          [&](int k, Index, Total v) { totals[k] = How::join(totals[k], v); });
      const Total total = reduce<How>(c, threads, join_all<How>(totals));
      if (there && threads.rank == 0) target.store(c, 0, result, total);
    }
  }
};

/// Index of the first of the largest of `count` elements, `inner` apart; a NaN is the largest.
template <class T>
struct ArgMax {
  static constexpr const char* name = "argmax";
  long long* to;
  const T* from;
  Index count;
  Index inner;  ///< 1: runs, shared out to teams; else columns
  Index results;
  int sharing;  ///< threads of a team, or columns of a tile

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (inner == 1) {
      Team team = make_team<Index>(c, sharing, 1);
      const Index teams = c.threads() / team.size;
      for (Index at = Index(c.block()) * teams; at < results; at += Index(c.blocks()) * teams) {
        find(c, team, at + team.index, (at + team.index) * count, at + team.index < results);
      }
    } else {
      Tile tile = make_tile<Index>(c, sharing, 1);
      const Index strips = quotient(inner + tile.width - 1, tile.width);
      const Index units = quotient(results, inner) * strips;
      for (Index unit = c.block(); unit < units; unit += c.blocks()) {
        const Index row = quotient(unit, strips);
        const Index column = (unit - row * strips) * tile.width + tile.column;
        find(c, tile, row * inner + column, row * count * inner + column, column < inner);
      }
    }
  }

 private:
  template <class Context, class Threads>
  METRONOME_DEVICE void find(Context& c, Threads& threads, Index result, Index origin,
                             bool there) const {
    constexpr auto none = Range<Index>::highest;
    T best = Range<T>::lowest();
    Index at = none();
    walk<T>(
        threads.rank, threads.size, there ? count : 0,
        [&](Index i) { return from[origin + i * inner]; },
        [&](int, Index i, T v) {
          if (at != none() && (v <= best || best != best)) return;
          best = v;
          at = i;
        });
    const T largest = reduce<Max>(c, threads, best);
    const bool has = best == largest || (best != best && largest != largest);
    at = reduce<Min>(c, threads, has ? at : none());
    if (there && threads.rank == 0) to[result] = at;
  }
};

template <class... Folds>
using KernelsOfFolds =
    KernelList<ReduceRuns<Folds>..., ReduceColumns<Folds>..., ReduceParts<Folds>..., ArgMax<float>,
               ArgMax<double>, ArgMax<int>, ArgMax<long long>>;

using ReduceKernels =
    KernelsOfFolds<AddFold<float>, AddFold<double>, AddFold<int>, AddFold<long long>,
                   SquaresFold<float>, SquaresFold<double>, NormFold<float>, NormFold<double>,
                   MaxFold<float>, MaxFold<double>, MaxFold<int>, MaxFold<long long>,
                   MinFold<float>, MinFold<double>, MinFold<int>, MinFold<long long>>;

}  // namespace metronome::cuda
