// Softmax along lines of elements: rows where the axis is the last, else columns of a plane. A line
// is read from memory once where shared memory can keep it.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// [outer, size, inner], reduced over the middle.
struct SoftmaxLines {
  Index outer = 1;
  Index size = 1;
  Index inner = 1;
  int threads = 0;    ///< inner == 1: those of a line's team; else 0
  int width = 0;      ///< inner > 1: columns of a tile; else 0
  bool kept = false;  ///< shared memory holds the lines of a block, behind what reductions take
};

/// One line: element i lies at offset + i * step, and is kept at kept[i * kept_step].
template <class T>
struct SoftmaxLine {
  Index offset;
  Index count;  ///< 0 for threads beyond the last line
  Index step;
  T* kept;  ///< or null
  Index kept_step;
};

/// kernel.line(c, threads, line) for each of the block's lines, `threads` its Team or Tile for
/// reductions of one T at once; Kept is what is kept of an element.
template <class T, class Kept, class Context, class Kernel>
METRONOME_DEVICE void for_lines(Context& c, const SoftmaxLines& lines, const Kernel& kernel) {
  if (lines.width == 0) {
    Team team = make_team<T>(c, lines.threads, 1);
    Kept* const kept = reinterpret_cast<Kept*>(c.shared() + team_bytes(1, sizeof(T)));
    const int teams = c.threads() / team.size;
    const Index step = Index(c.blocks()) * teams;
    for (Index row = Index(c.block()) * teams; row < lines.outer; row += step) {
      const Index own = row + team.index;
      kernel.line(c, team,
                  SoftmaxLine<Kept>{own * lines.size, own < lines.outer ? lines.size : 0, 1,
                                    lines.kept ? kept + team.index * lines.size : nullptr, 1});
    }
    return;
  }
  Tile tile = make_tile<T>(c, lines.width, 1);
  Kept* const kept =
      reinterpret_cast<Kept*>(c.shared() + tile_bytes(c.threads(), lines.width, 1, sizeof(T)));
  const Index tiles = (lines.inner + lines.width - 1) / lines.width;
  for (Index at = c.block(); at < lines.outer * tiles; at += c.blocks()) {
    const Index column = at % tiles * lines.width + tile.column;
    kernel.line(c, tile,
                SoftmaxLine<Kept>{at / tiles * lines.size * lines.inner + column,
                                  column < lines.inner ? lines.size : 0, lines.inner,
                                  lines.kept ? kept + tile.column : nullptr, lines.width});
  }
}

/// exp(x - max) / sum(exp(x - max)), or its logarithm. For that the largest elements, which add 1
/// each to the sum, are counted, and the rest are added: the sum less 1 so keeps its digits.
template <class T, class X = Load<T>, class Y = Store<T>>
struct SoftmaxForward {
  static constexpr const char* name = "softmax";
  static constexpr const char* header = "ops/softmax/softmax_kernels.h";
  X x;
  Y y;
  SoftmaxLines lines;
  bool log;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_lines<T, T>(c, lines, *this);
  }

  template <class Context, class Threads>
  METRONOME_DEVICE void line(Context& c, Threads& threads, const SoftmaxLine<T>& l) const {
    const int rank = threads.rank, size = threads.size;
    T top[kTogether], total[kTogether], tops[kTogether];
    for (int k = 0; k < kTogether; ++k) {
      top[k] = Max::none<T>();
      total[k] = tops[k] = T(0);
    }
    walk<T>(
        rank, size, l.count, [&](Index i) { return x.first(c, l.offset + i * l.step); },
        [&](int k, Index i, T v) {
          top[k] = Max::join(top[k], v);
          if (l.kept) l.kept[i * l.kept_step] = v;
        });
    const T max = reduce<Max>(c, threads, join_all<Max>(top));

    const auto element = [&](Index i) {
      return l.kept ? l.kept[i * l.kept_step] : x(l.offset + i * l.step);
    };
    walk<T>(rank, size, l.count, element, [&](int k, Index i, T v) {
      const T e = exp_of(v - max);
      const bool counted = log && !(v < max);
      total[k] += counted ? e - T(1) : e;  // NaN stays
      tops[k] += counted ? T(1) : T(0);
      if (l.kept && !log) l.kept[i * l.kept_step] = e;
    });
    const T sum = reduce<Sum>(c, threads, join_all<Sum>(total));
    T last;
    if (log) {
      const T largest = reduce<Sum>(c, threads, join_all<Sum>(tops));
      last = log_of(largest) + log1p_of(sum / largest);
    } else {
      last = T(1) / sum;
    }
    walk<T>(rank, size, l.count, element, [&](int, Index i, T v) {
      const T e = log ? v - max - last : (l.kept ? v : exp_of(v - max)) * last;
      y(c, l.offset + i * l.step, e);
    });
  }
};

/// y (g - sum(g y)), or g - exp(y) sum(g) with `log`: where exp(y) is near 1, 1 - exp(y) has its
/// digits by expm1 alone.
template <class T, class G = Load<T>, class Y = Load<T>, class D = Store<T>>
struct SoftmaxBackward {
  static constexpr const char* name = "softmax_grad";
  static constexpr const char* header = "ops/softmax/softmax_kernels.h";
  G g;
  Y y;
  D dx;
  SoftmaxLines lines;
  bool log;

  struct GradAndResult {
    T g, y;
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for_lines<T, GradAndResult>(c, lines, *this);
  }

  template <class Context, class Threads>
  METRONOME_DEVICE void line(Context& c, Threads& threads,
                             const SoftmaxLine<GradAndResult>& l) const {
    const int rank = threads.rank, size = threads.size;
    const bool late = log && l.kept == nullptr;  // y is of no use to the sum: it is read after it
    T total[kTogether];
    for (int k = 0; k < kTogether; ++k) total[k] = T(0);
    walk<GradAndResult>(
        rank, size, l.count,
        [&](Index i) {
          const Index at = l.offset + i * l.step;
          return GradAndResult{g.first(c, at), late ? T(0) : y.first(c, at)};
        },
        [&](int k, Index i, GradAndResult v) {
          total[k] = log ? total[k] + v.g : fma_of(v.g, v.y, total[k]);
          if (l.kept) l.kept[i * l.kept_step] = v;
        });
    const T sum = reduce<Sum>(c, threads, join_all<Sum>(total));
    walk<GradAndResult>(
        rank, size, l.count,
        [&](Index i) {
          const Index at = l.offset + i * l.step;
          if (l.kept) return l.kept[i * l.kept_step];
          return GradAndResult{g(at), late ? y.first(c, at) : y(at)};
        },
        [&](int, Index i, GradAndResult v) {
          T d;
          if (!log) {
            d = v.y * (v.g - sum);
          } else if (v.g == T(0) && sum == T(0)) {
            d = T(0);  // of a row whose target is ignored, which may hold anything
          } else if (v.y > T(-0.7)) {
            d = -(v.g * expm1_of(v.y)) - exp_of(v.y) * (sum - v.g);
          } else {
            d = v.g - exp_of(v.y) * sum;
          }
          dx(c, l.offset + i * l.step, d);
        });
  }
};

/// The gradient of a row: that of one element, which an index names, and 0 elsewhere.
template <class T, class I>
struct PickedGrad {
  const T* from;
  const I* index;
  Index size;     ///< of a row
  Index ignored;  ///< an index whose row has no gradient; -1 where there is none
  METRONOME_DEVICE T operator()(Index i) const {
    const Index row = quotient(i, size), at = index[row];
    return i - row * size == at && at != ignored ? from[row] : T(0);
  }
  template <class Context>
  METRONOME_DEVICE T first(Context&, Index i) const {
    return (*this)(i);
  }
};

template <class T, class I>
using PickedSoftmaxBackward = SoftmaxBackward<T, PickedGrad<T, I>>;

using SoftmaxKernels =
    KernelList<SoftmaxForward<float>, SoftmaxForward<double>, SoftmaxBackward<float>,
               SoftmaxBackward<double>, PickedSoftmaxBackward<float, int>,
               PickedSoftmaxBackward<float, long long>, PickedSoftmaxBackward<double, int>,
               PickedSoftmaxBackward<double, long long>>;

}  // namespace metronome::cuda
