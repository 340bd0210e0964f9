// Reductions as loops over a coalesced nest: neighbouring dimensions that are both kept, or both
// reduced, are one loop. The last loop decides: where it is reduced, runs are folded; where it is
// kept, columns are.
//
//   x [4, 5, 6] over    loops, outermost first        walk
//   axis 2              kept 20, reduced 6            runs      a result folds one run of 6
//   axes 0 and 2        reduced 4, kept 5, reduced 6  runs      a result joins 4 runs of 6
//   axis 1              kept 4, reduced 5, kept 6     columns   strips of neighbouring results
//   axis 0              reduced 4, kept 30            columns   split, where they are few and long
//   all                 reduced 120                   runs      long_run, from kParallelFrom on
//
// `split` and `long_run` cut what is folded into at most kChunks parts, whose results are joined in
// order; in the others a result is one thread's. How sums are cut and in which order they are added
// depends on the shape alone. Sums of f32 that leave its range on the way are made again in f64.
#include "ops/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ops/cpu/fold.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/short_rows.h"
#include "ops/expr/kept_functions.h"
#include "ops/expr/nest.h"
#include "ops/rules/axis.h"
#include "ops/rules/by_element.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Parts of a long reduction with few results, at most. It is fixed, as the order of sums must not
/// depend on the threads; so many threads at most share the work. More parts take more scratch, a
/// row of results each, and more joins.
constexpr std::int64_t kChunks = 32;
/// Rows from which few columns are split by rows: each part but the last has 64 or more. A smaller
/// value splits shorter columns; a larger one leaves longer ones to threads that share out strips.
constexpr std::int64_t kSplitRows = 2048;

struct ReduceLoop {
  std::int64_t size, step;  ///< of the operand, in elements
};

/// Steps of the operand at index i of the loops.
std::int64_t offset(const std::vector<ReduceLoop>& loops, std::int64_t i) {
  std::int64_t result = 0;
  for (std::size_t d = loops.size(); d-- > 0; i /= loops[d].size) {
    result += i % loops[d].size * loops[d].step;
  }
  return result;
}

struct ReduceLoops {
  std::vector<ReduceLoop> kept, reduced;  ///< without the last loop
  ReduceLoop last{1, 1};
  bool runs = true;  ///< the last loop is reduced
  std::int64_t kept_count = 1, reduced_count = 1;

  /// Few long columns: rows are split among threads, parts of the result lie in scratch.
  bool split(Reduce::Kind kind) const {
    return kind != Reduce::Kind::norm && !runs && kept_count == 1 && reduced.size() == 1 &&
           reduced_count >= kSplitRows && last.size <= 256;
  }
};

ReduceLoops layout_of(const Shape& shape, const std::vector<std::int64_t>& axes) {
  // The result's steps matter only in that they are zero where it is reduced.
  Shape result = dense_strides(shape);
  for (const std::int64_t axis : axes) result[axis < 0 ? axis + shape.size() : axis] = 0;
  const Nest nest = coalesce({shape, {dense_strides(shape), result}});
  ReduceLoops layout;
  for (std::int64_t d = 0; d < nest.rank(); ++d) {
    const ReduceLoop loop{nest.sizes[d], nest.strides[0][d]};
    const bool reduced = nest.strides[1][d] == 0;
    if (d == nest.rank() - 1) {
      layout.last = loop;
      layout.runs = reduced;
    } else {
      (reduced ? layout.reduced : layout.kept).push_back(loop);
      (reduced ? layout.reduced_count : layout.kept_count) *= loop.size;
    }
  }
  return layout;
}

/// A bound reduction. `walk` is one of the functions below: one type of kernel for all kinds and
/// walks, as each type costs seconds of compiling.
template <class T>
struct Kernel {
  T* to;
  const T* from;
  T* scratch;
  ReduceLoops l;
  double divisor;  ///< of each folded result: the elements folded into it for a mean, else 1
  int threads;
  void (*walk)(const Kernel&) = nullptr;

  void operator()() const { walk(*this); }

  template <Reduce::Kind kKind, class Total>
  T finish(Total total) const {
    if constexpr (kKind == Reduce::Kind::norm) return static_cast<T>(std::sqrt(total));
    return static_cast<T>(divisor == 1 ? total : total / static_cast<Total>(divisor));
  }
};

/// Each result is made of one run or of several.
template <Reduce::Kind kKind, class T>
void runs(const Kernel<T>& kernel) {
  using F = Fold<kKind, T>;
  const ReduceLoops& l = kernel.l;
  const std::int64_t grain = 4096 / (l.last.size * l.reduced_count) + 1;
  parallel_for(kernel.threads, l.kept_count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const T* p = kernel.from + offset(l.kept, k);
      auto total = F::run(p, l.last.size);
      for (std::int64_t r = 1; r < l.reduced_count; ++r) {
        total = F::join_one(total, F::run(p + offset(l.reduced, r), l.last.size));
      }
      kernel.to[k] = kernel.template finish<kKind>(total);
    }
  });
}

bool all_finite(const float* x, std::int64_t n) {
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    // The bits of an f32's exponent: all are set in infinities and NaNs alone.
    constexpr std::uint32_t kExponent = 0x7F800000;
    found |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x[i]) & kExponent) == kExponent);
  }
  return found == 0;
}

/// Writes the results of `count` rows from `first` on, of whose elements `parts` are folded.
template <Reduce::Kind kKind, class T, class Part>
void finish_rows(const Kernel<T>& kernel, std::int64_t first, std::int64_t count,
                 const Part* parts) {
  using F = Fold<kKind, T>;
  T* const to = kernel.to + first;
  for (std::int64_t r = 0; r < count; ++r) {
    to[r] = kernel.template finish<kKind>(static_cast<typename F::Total>(parts[r]));
  }
  if constexpr (F::kWidens) {
    if (all_finite(parts, count)) return;
    const std::int64_t n = kernel.l.last.size;
    for (std::int64_t r = 0; r < count; ++r) {
      if (std::isfinite(parts[r])) continue;
      to[r] = kernel.template finish<kKind>(F::again(kernel.from + (first + r) * n, n, 1));
    }
  }
}

/// Rows of a few elements that lie one after the other.
template <Reduce::Kind kKind, class T>
void short_runs(const Kernel<T>& kernel) {
  const std::int64_t n = kernel.l.last.size, grain = 4096 / n + 1;
  parallel_for(
      kernel.threads, kernel.l.kept_count, grain, [&](std::int64_t begin, std::int64_t end) {
        ShortRows<kKind, T>::fold(kernel.from + begin * n, end - begin, n,
                                  [&](std::int64_t row, std::int64_t count, const auto* parts) {
                                    finish_rows<kKind>(kernel, begin + row, count, parts);
                                  });
      });
}

/// One result of one long run, in chunks.
template <Reduce::Kind kKind, class T>
void long_run(const Kernel<T>& kernel) {
  using F = Fold<kKind, T>;
  const std::int64_t n = kernel.l.last.size;
  const std::int64_t blocks = (n + F::kBlock - 1) / F::kBlock;
  const std::int64_t chunk = (blocks + kChunks - 1) / kChunks * F::kBlock;
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  std::array<typename F::Total, kChunks> parts{};
  parallel_for(kernel.threads, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      parts[c] = F::run(kernel.from + c * chunk, std::min(chunk, n - c * chunk));
    }
  });
  auto total = parts[0];
  for (std::int64_t c = 1; c < chunks; ++c) total = F::join_one(total, parts[c]);
  *kernel.to = kernel.template finish<kKind>(total);
}

/// A strip of results that lie side by side, as rows of them are folded.
template <Reduce::Kind kKind, class T>
void strip(const Kernel<T>& kernel, std::int64_t kept, std::int64_t index) {
  using F = Fold<kKind, T>;
  const ReduceLoops& l = kernel.l;
  const std::int64_t column = index * F::kStrip;
  const std::int64_t width = std::min(F::kStrip, l.last.size - column);
  using Part = typename F::Part;
  alignas(64) Part total[F::kStrip];
  std::fill_n(total, width, F::template start<Part>());
  const T* p = kernel.from + offset(l.kept, kept) + column;
  // The innermost of the reduced loops runs inside `columns`.
  const ReduceLoop rows = l.reduced.empty() ? ReduceLoop{1, 0} : l.reduced.back();
  for (std::int64_t r = 0; r < l.reduced_count; r += rows.size) {
    F::columns(total, p + offset(l.reduced, r), rows.size, rows.step, width);
  }
  T* to = kernel.to + kept * l.last.size + column;
  for (std::int64_t c = 0; c < width; ++c) {
    to[c] = kernel.template finish<kKind>(static_cast<typename F::Total>(total[c]));
  }
  if constexpr (F::kWidens) {
    if (all_finite(total, width)) return;
    for (std::int64_t c = 0; c < width; ++c) {
      if (std::isfinite(total[c])) continue;
      double again = 0;  // the column once more, in f64
      for (std::int64_t r = 0; r < l.reduced_count; r += rows.size) {
        again += F::again(p + c + offset(l.reduced, r), rows.size, rows.step);
      }
      to[c] = kernel.template finish<kKind>(again);
    }
  }
}

template <Reduce::Kind kKind, class T>
void columns(const Kernel<T>& kernel) {
  using F = Fold<kKind, T>;
  const ReduceLoops& l = kernel.l;
  const std::int64_t strips = (l.last.size + F::kStrip - 1) / F::kStrip;
  const std::int64_t grain = 4096 / (F::kStrip * l.reduced_count) + 1;
  parallel_for(kernel.threads, l.kept_count * strips, grain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t s = begin; s < end; ++s) {
                   strip<kKind>(kernel, s / strips, s % strips);
                 }
               });
}

/// Few columns, of rows that lie side by side, as many: several rows are taken for one.
///
///   a0 b0   a1 b1   a2 b2   a3 b3   as   a0 b0 a1 b1
///                                        a2 b2 a3 b3
template <class F, class T>
void fold_few_columns(const T* p, std::int64_t rows, std::int64_t width, T* to) {
  const std::int64_t together = F::kStrip / width, wide = together * width;
  alignas(64) T total[F::kStrip];
  std::fill_n(total, wide, F::template start<T>());
  F::columns(total, p, rows / together, wide, wide);
  const std::int64_t done = rows / together * wide;
  for (std::int64_t i = 0; i < rows * width - done; ++i) {
    total[i] = F::join_one(total[i], F::part_of(p[done + i]));
  }
  for (std::int64_t c = 0; c < width; ++c) {
    to[c] = total[c];
    for (std::int64_t r = 1; r < together; ++r) to[c] = F::join_one(to[c], total[r * width + c]);
  }
}

/// Folds columns that are few and long: threads fold parts of the rows into scratch, which are
/// joined at the end.
template <Reduce::Kind kKind, class T>
void split(const Kernel<T>& kernel) {
  using F = Fold<kKind, T>;
  const std::int64_t width = kernel.l.last.size;
  const ReduceLoop rows = kernel.l.reduced[0];
  const std::int64_t chunk = (rows.size + kChunks - 1) / kChunks;
  const std::int64_t chunks = (rows.size + chunk - 1) / chunk;
  parallel_for(kernel.threads, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T* part = kernel.scratch + c * width;
      const T* p = kernel.from + c * chunk * rows.step;
      const std::int64_t count = std::min(chunk, rows.size - c * chunk);
      if (rows.step == width && 2 * width <= F::kStrip) {
        fold_few_columns<F>(p, count, width, part);
        continue;
      }
      std::fill_n(part, width, F::template start<T>());
      for (std::int64_t column = 0; column < width; column += F::kStrip) {
        F::columns(part + column, p + column, count, rows.step,
                   std::min(F::kStrip, width - column));
      }
    }
  });
  for (std::int64_t column = 0; column < width; ++column) {
    auto total = F::template start<typename F::Total>();
    for (std::int64_t c = 0; c < chunks; ++c) {
      total =
          F::join_one(total, static_cast<typename F::Total>(kernel.scratch[c * width + column]));
    }
    if constexpr (F::kWidens) {
      if (!std::isfinite(total)) total = F::again(kernel.from + column, rows.size, rows.step);
    }
    kernel.to[column] = kernel.template finish<kKind>(total);
  }
}

/// The choice depends on the shape alone, as the order of additions does.
template <Reduce::Kind kKind, class T>
auto walk_over(const ReduceLoops& l, std::int64_t results) -> void (*)(const Kernel<T>&) {
  if (!l.runs) {
    if constexpr (kKind != Reduce::Kind::norm) {
      if (l.split(kKind)) return split<kKind, T>;
    }
    return columns<kKind, T>;
  }
  const bool dense = l.reduced.empty() && l.last.step == 1 &&
                     (l.kept.empty() || (l.kept.size() == 1 && l.kept[0].step == l.last.size));
  constexpr std::int64_t kFew = 8;  // a call for each is the faster
  if (dense && results >= kFew && l.last.size <= ShortRows<kKind, T>::kLongest) {
    return short_runs<kKind, T>;
  }
  const bool one_long_run = results == 1 && l.reduced_count == 1 && l.last.size >= kParallelFrom;
  return one_long_run ? long_run<kKind, T> : runs<kKind, T>;
}

template <class T>
auto walk_of(Reduce::Kind kind, const ReduceLoops& l, std::int64_t results)
    -> void (*)(const Kernel<T>&) {
  using Kind = Reduce::Kind;
  switch (kind) {
    case Kind::sum:
    case Kind::mean:  // a sum, with a divisor
      if constexpr (keeps(Kind::sum) || keeps(Kind::mean))
        return walk_over<Kind::sum, T>(l, results);
      break;
    case Kind::max:
      if constexpr (keeps(Kind::max)) return walk_over<Kind::max, T>(l, results);
      break;
    case Kind::min:
      if constexpr (keeps(Kind::min)) return walk_over<Kind::min, T>(l, results);
      break;
    case Kind::sum_squares:
    case Kind::norm:
      break;
  }
  if constexpr (std::is_floating_point_v<T> && keeps(Kind::norm)) {
    if (kind == Kind::norm) return walk_over<Kind::norm, T>(l, results);
  }
  if constexpr (std::is_floating_point_v<T> && keeps(Kind::sum_squares)) {
    if (kind == Kind::sum_squares) return walk_over<Kind::sum_squares, T>(l, results);
  }
  own_mistake("a reduction without a kernel for its type");
}

template <class T>
CpuKernel reduce(const Reduce& op, const CpuLaunch& launch) {
  const Type& in = launch.inputs[0];
  const bool mean = op.kind == Reduce::Kind::mean;
  if (mean && !std::is_floating_point_v<T>) {
    own_mistake("a reduction without a kernel for its type");
  }
  const std::int64_t results = launch.outputs[0].numel();
  if (in.numel() == 0) {
    const T of_nothing = mean ? std::numeric_limits<T>::quiet_NaN() : T(0);
    return CpuKernel(
        [to = launch.out<T>(0), results, of_nothing] { std::fill_n(to, results, of_nothing); });
  }
  Kernel<T> kernel{launch.out<T>(0),
                   launch.in<T>(0),
                   static_cast<T*>(launch.scratch),
                   layout_of(in.shape, op.axes),
                   mean ? static_cast<double>(in.numel() / results) : 1.0,
                   launch.choice.threads};
  kernel.walk = walk_of<T>(op.kind, kernel.l, results);
  return CpuKernel(std::move(kernel));
}

std::int64_t threads_for(const CpuQuery& query) {
  return query.inputs[0].numel() >= kParallelFrom ? query.threads : 1;
}

}  // namespace

std::vector<Candidate> candidates(const Reduce& op, const CpuQuery& query) {
  Candidate direct{.threads = static_cast<int>(threads_for(query))};
  const ReduceLoops layout = layout_of(query.inputs[0].shape, op.axes);
  if (layout.split(op.kind)) {
    direct.scratch_bytes =
        static_cast<std::size_t>(kChunks * layout.last.size) * size_of(query.inputs[0].element);
  }
  return {direct};
}

CpuKernel bind(const Reduce& op, const CpuLaunch& launch) {
  return with_element<Reduce>(launch.inputs[0].element, [&](auto x) -> CpuKernel {
    using T = decltype(x);
    if constexpr (!std::is_same_v<T, bool> && !kIsHalf<T>) return reduce<T>(op, launch);
    own_mistake("a reduction without a kernel for its type");
  });
}

std::vector<Candidate> candidates(const ArgMax&, const CpuQuery& query) {
  return {{.threads = static_cast<int>(threads_for(query))}};
}

namespace {

template <class T>
CpuKernel argmax(const ArgMax& op, const CpuLaunch& launch) {
  const AxisExtent e = extent_along(launch.inputs[0], op.axis);
  return CpuKernel([to = launch.out<std::int64_t>(0), from = launch.in<T>(0), n = e.size,
                    inner = e.inner, results = launch.outputs[0].numel(),
                    threads = launch.choice.threads] {
    parallel_for(threads, results, 4096 / n + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* p = from + i / inner * n * inner + i % inner;
        std::int64_t best = 0;
        // A NaN is the largest: nothing after it is larger.
        for (std::int64_t k = 1; k < n && p[best * inner] == p[best * inner]; ++k) {
          if (!(p[k * inner] <= p[best * inner])) best = k;
        }
        to[i] = best;
      }
    });
  });
}

}  // namespace

CpuKernel bind(const ArgMax& op, const CpuLaunch& launch) {
  return with_element<ArgMax>(launch.inputs[0].element, [&](auto x) -> CpuKernel {
    using T = decltype(x);
    if constexpr (!std::is_same_v<T, bool> && !kIsHalf<T>) return argmax<T>(op, launch);
    own_mistake("an argmax without a kernel for its type");
  });
}

}  // namespace metronome::METRONOME_ISA
