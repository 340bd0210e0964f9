// Norms of rows: a warp or a block for each row; the gradients of gamma and beta are summed over
// each block's rows, then over blocks. `Norm` says which norm a kernel is:
//
//   struct LayerNormTraits {
//     static constexpr bool centered = true;  // takes each row's mean off, and adds beta
//     static constexpr const char* name = "layer_norm";
//     static constexpr const char* grad_name = "layer_norm_grad";
//     static constexpr const char* sums_name = "layer_norm_sums";
//     static constexpr const char* header = "ops/layer_norm/layer_norm_kernels.h";
//   };
#pragma once

#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// n of a row: (x - center) scale + shift, or x scale if not centered.
template <class Norm, class T>
struct NormLine {
  T center, scale, shift;

  METRONOME_DEVICE T from_center(T x) const {
    if constexpr (Norm::centered) return x - center;
    return x;
  }
  METRONOME_DEVICE T operator()(T x) const {
    if constexpr (Norm::centered) return fma_of(x - center, scale, shift);
    return x * scale;
  }
};

/// n gamma + beta, rstd = 1 / sqrt(average((x - mean)^2) + eps); if not centered n gamma,
/// rstd = 1 / sqrt(average(x^2) + eps).
template <class Norm, class T, class X = Load<T>, class Y = Store<T>>
struct NormForward {
  static constexpr const char* name = Norm::name;
  static constexpr const char* header = Norm::header;
  static constexpr int kSums = Norm::centered ? 2 : 1;  ///< at once
  X x;
  Y y;
  const T* gamma;
  const T* beta;  ///< of centered norms
  T* mean;        ///< of centered norms; may be null
  T* rstd;        ///< may be null
  NormRows rows;
  T eps;

  struct RowNumbers {
    T x, gamma, beta;
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Team team = make_team<T>(c, rows.threads, kSums);
    const int teams = c.threads() / team.size;
    T* const kept = reinterpret_cast<T*>(c.shared() + team_bytes(kSums, sizeof(T))) +
                    (rows.kept ? team.index * rows.width : 0);
    const Index step = Index(c.blocks()) * teams;
    // All teams of a block take part in each turn, also those beyond the last row.
    for (Index begin = Index(c.block()) * teams; begin < rows.count; begin += step) {
      row(c, team, begin + team.index, kept);
    }
  }

  template <class Context>
  METRONOME_DEVICE void row(Context& c, Team& team, Index row, T* kept) const {
    const Index offset = row * rows.width, count = row < rows.count ? rows.width : 0;
    const T width = T(rows.width);
    T total[kTogether] = {};  // of x, or of x^2 if not centered
    walk<T>(
        team.rank, team.size, count, [&](Index i) { return x.first(c, offset + i); },
        [&](int k, Index i, T v) {
          total[k] = Norm::centered ? total[k] + v : fma_of(v, v, total[k]);
          if (rows.kept) kept[i] = v;
        });
    const T average = reduce<Sum>(c, team, join_all<Sum>(total)) / width;

    const auto element = [&](Index i) { return rows.kept ? kept[i] : x(offset + i); };
    NormLine<Norm, T> line{};
    T rest = T(0);  // what rounding the mean left over
    if constexpr (Norm::centered) {
      // The squares of what differs from the mean: no cancellation.
      T squares[kTogether] = {}, rests[kTogether] = {};
      walk<T>(team.rank, team.size, count, element, [&](int k, Index, T v) {
        const T d = v - average;
        squares[k] = fma_of(d, d, squares[k]);
        rests[k] += d;
      });
      T found[2] = {join_all<Sum>(squares), join_all<Sum>(rests)};
      reduce<Sum, 2>(c, team, found);
      rest = found[1] / width;
      const T left = found[0] / width - rest * rest;
      T scale = T(1) / sqrt_of((left < T(0) ? T(0) : left) + eps);
      const bool beyond = !(left < Range<T>::highest());
      if (c.ballot(beyond) != 0) {
        const T found_again = scale_again(c, team, count, average, element);
        if (beyond) scale = found_again;
      }
      line = {average, scale, -rest * scale};
    } else {
      line.scale = T(1) / sqrt_of(average + eps);
      const bool beyond = !(average < Range<T>::highest());
      if (c.ballot(beyond) != 0) {
        const T found_again = scale_again(c, team, count, T(0), element);
        if (beyond) line.scale = found_again;
      }
    }
    walk<RowNumbers>(
        team.rank, team.size, count,
        [&](Index i) { return RowNumbers{element(i), gamma[i], Norm::centered ? beta[i] : T(0)}; },
        [&](int, Index i, RowNumbers v) {
          const T n = line(v.x);
          y(c, offset + i, Norm::centered ? fma_of(n, v.gamma, v.beta) : n * v.gamma);
        });
    if (team.rank == 0 && count > 0) {
      if (Norm::centered && mean != nullptr) mean[row] = average + rest;
      if (rstd != nullptr) rstd[row] = line.scale;
    }
  }

  // rstd of a row whose squares are beyond T's range, from smaller numbers. All lanes of a warp
  // take part.
  template <class Context, class Element>
  METRONOME_DEVICE T scale_again(Context& c, Team& team, Index count, T center,
                                 const Element& element) const {
    const T smaller = T(sizeof(T) == 4 ? 0x1p-80 : 0x1p-600);
    T squares[kTogether] = {};
    walk<T>(team.rank, team.size, count, element, [&](int k, Index, T v) {
      const T d = (v - center) * smaller;
      squares[k] = fma_of(d, d, squares[k]);
    });
    return smaller / sqrt_of(reduce<Sum>(c, team, join_all<Sum>(squares)) / T(rows.width));
  }
};

/// dx = rstd (h - average(h) - n average(h n)) with h = g gamma, n = (d - average(d)) rstd and
/// d = x - mean; and the sums of g n and g over each block's rows. If not centered
/// dx = rstd (h - n average(h n)) with n = x rstd; and the sums of g n.
template <class Norm, class T, class G = Load<T>, class X = Load<T>, class D = Store<T>>
struct NormBackward {
  static constexpr const char* name = Norm::grad_name;
  static constexpr const char* header = Norm::header;
  /// Rows that a team works on at once: their loads and sums wait together.
  static constexpr int kRows = 2;
  /// Sums over each row: of h d; if centered of h, too, and of d, whose average is what rounding
  /// the mean left over.
  static constexpr int kOfRow = Norm::centered ? 3 : 1;
  static constexpr int kSums = kOfRow * kRows;             ///< at once
  static constexpr int kColumns = Norm::centered ? 2 : 1;  ///< sums over rows, for each element

  G g;
  X x;
  D dx;
  const T* mean;  ///< of centered norms
  const T* rstd;
  const T* gamma;
  T* dgamma;  ///< block b's sums lie at dgamma + b * kColumns * rows.width
  T* dbeta;   ///< of centered norms; likewise
  NormRows rows;
  Index rows_of_block;
  bool sums_kept;  ///< shared memory holds each team's sums; else, of one team, they lie in dgamma
  Watch watch;     ///< for the sums

  struct Pair {
    T g, x;
  };
  struct RowNumbers {
    T gamma;
    Pair of[kRows];
  };
  // The rows that a team works on, from `first` up to `last`.
  struct TeamRows {
    Index first, last;
    Pair* kept;
    T* dgamma;
    T* dbeta;
    bool begins;  ///< the sums begin with these rows
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Team team = make_team<T>(c, rows.threads, kSums);
    const int teams = c.threads() / team.size;
    unsigned char* free = c.shared() + team_bytes(kSums, sizeof(T));
    T* const sums = reinterpret_cast<T*>(free);
    const Index columns = kColumns * rows.width;
    if (sums_kept) free += teams * columns * sizeof(T);
    const Index begin = c.block() * rows_of_block;
    const Index end = begin + rows_of_block < rows.count ? begin + rows_of_block : rows.count;
    T* const block_dgamma = dgamma + c.block() * columns;
    T* const block_dbeta = Norm::centered ? dbeta + c.block() * columns : nullptr;

    TeamRows own{};
    own.last = end;
    own.kept = reinterpret_cast<Pair*>(free) + (rows.kept ? team.index * kRows * rows.width : 0);
    own.dgamma = sums_kept ? sums + team.index * columns : block_dgamma;
    own.dbeta = sums_kept ? own.dgamma + rows.width : block_dbeta;
    for (Index at = begin; at < end; at += teams * kRows) {
      own.first = at + team.index * kRows;
      own.begins = at == begin;
      add_rows(c, team, own);
    }
    if (!sums_kept) return;
    c.barrier();
    for (Index i = c.thread(); i < rows.width; i += c.threads()) {
      T of_gamma = T(0), of_beta = T(0);
      for (int t = 0; t < teams; ++t) {
        of_gamma += sums[t * columns + i];
        if constexpr (Norm::centered) of_beta += sums[t * columns + rows.width + i];
      }
      block_dgamma[i] = watch_number(c, watch, of_gamma);
      if constexpr (Norm::centered) block_dbeta[i] = watch_number(c, watch, of_beta);
    }
  }

  template <class Context>
  METRONOME_DEVICE void add_rows(Context& c, Team& team, const TeamRows& own) const {
    NormLine<Norm, T> line[kRows];
    METRONOME_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const bool real = own.first + r < own.last;
      line[r].center = Norm::centered && real ? mean[own.first + r] : T(0);
      line[r].scale = real ? rstd[own.first + r] : T(0);
    }
    // Rows beyond the last are zeros.
    T total[kSums] = {};
    walk<RowNumbers>(
        team.rank, team.size, rows.width,
        [&](Index i) {
          RowNumbers v;
          v.gamma = gamma[i];
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const Index at = (own.first + r) * rows.width + i;
            v.of[r] = own.first + r < own.last ? Pair{g.first(c, at), x.first(c, at)} : Pair{};
          }
          return v;
        },
        [&](int, Index i, const RowNumbers& v) {
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            T* const sums = total + kOfRow * r;
            const T h = v.of[r].g * v.gamma, d = line[r].from_center(v.of[r].x);
            sums[0] = fma_of(h, d, sums[0]);
            if constexpr (Norm::centered) {
              sums[1] += h;
              sums[2] += d;
            }
            if (rows.kept) own.kept[r * rows.width + i] = v.of[r];
          }
        });
    reduce<Sum, kSums>(c, team, total);

    const T width = T(rows.width);
    T average[kRows], slope[kRows];
    METRONOME_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const T* const sums = total + kOfRow * r;
      if constexpr (Norm::centered) {
        const T rest = T(left_of_mean(double(sums[2] / width), line[r].center));
        average[r] = sums[1] / width;
        slope[r] = (sums[0] - rest * sums[1]) * (line[r].scale / width);
        line[r].shift = -rest * line[r].scale;
      } else {
        slope[r] = sums[0] / width * line[r].scale;
      }
    }
    walk<RowNumbers>(
        team.rank, team.size, rows.width,
        [&](Index i) {
          RowNumbers v;
          v.gamma = gamma[i];
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const Index at = (own.first + r) * rows.width + i;
            if (rows.kept) {
              v.of[r] = own.kept[r * rows.width + i];
            } else {
              v.of[r] = own.first + r < own.last ? Pair{g(at), x(at)} : Pair{};
            }
          }
          return v;
        },
        [&](int, Index i, const RowNumbers& v) {
          T of_gamma = own.begins ? T(0) : own.dgamma[i];
          T of_beta = own.begins || !Norm::centered ? T(0) : own.dbeta[i];
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const T grad = v.of[r].g, n = line[r](v.of[r].x);
            of_gamma = fma_of(grad, n, of_gamma);
            of_beta += grad;
            T h = grad * v.gamma;
            if constexpr (Norm::centered) h = h - average[r];
            if (own.first + r < own.last) {
              dx(c, (own.first + r) * rows.width + i, (h - n * slope[r]) * line[r].scale);
            }
          }
          own.dgamma[i] = of_gamma;
          if constexpr (Norm::centered) own.dbeta[i] = of_beta;
        });
  }
};

/// Sums over `parts` of from[p][i], i < columns: the first `width` to dgamma, the others to dbeta.
template <class Norm, class T>
struct NormSums {
  static constexpr const char* name = Norm::sums_name;
  const T* from;
  T* dgamma;
  T* dbeta;  ///< of centered norms
  Index parts;
  Index width;
  int tile;  ///< columns of a tile
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Tile threads = make_tile<T>(c, tile, 1);
    const Index columns = (Norm::centered ? 2 : 1) * width, step = Index(c.blocks()) * tile;
    for (Index begin = Index(c.block()) * tile; begin < columns; begin += step) {
      const Index column = begin + threads.column;
      T total[kTogether] = {};
      walk<T>(
          threads.rank, threads.size, column < columns ? parts : 0,
          [&](Index p) { return from[p * columns + column]; },
          [&](int k, Index, T v) { total[k] += v; });
      const T sum = reduce<Sum>(c, threads, join_all<Sum>(total));
      if (threads.rank == 0 && column < columns) {
        (column < width ? dgamma[column] : dbeta[column - width]) = watch_number(c, watch, sum);
      }
    }
  }
};

/// A norm's kernels, as the build lists them.
template <class Norm>
using NormKernels =
    KernelList<NormForward<Norm, float>, NormForward<Norm, double>, NormBackward<Norm, float>,
               NormBackward<Norm, double>, NormSums<Norm, float>, NormSums<Norm, double>>;

}  // namespace metronome::cuda
