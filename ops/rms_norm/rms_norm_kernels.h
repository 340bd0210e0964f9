// RMS norm: a warp or a block for each row; the gradient of gamma is summed over each block's rows,
// then over blocks.
#pragma once

#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// x rstd gamma, rstd = 1 / sqrt(average(x^2) + eps).
template <class T, class X = Load<T>, class Y = Store<T>>
struct RmsNormForward {
  static constexpr const char* name = "rms_norm";
  static constexpr const char* header = "ops/rms_norm/rms_norm_kernels.h";
  X x;
  Y y;
  const T* gamma;
  T* rstd;  ///< may be null
  NormRows rows;
  T eps;

  struct Loaded {
    T x, gamma;
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Team team = make_team<T>(c, rows.threads, 1);
    const int teams = c.threads() / team.size;
    T* const kept = reinterpret_cast<T*>(c.shared() + team_bytes(1, sizeof(T))) +
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
    T squares[kTogether] = {};
    walk<T>(
        team.rank, team.size, count, [&](Index i) { return x.first(c, offset + i); },
        [&](int k, Index i, T v) {
          squares[k] = fma_of(v, v, squares[k]);
          if (rows.kept) kept[i] = v;
        });
    const T average = reduce<Sum>(c, team, joined<Sum>(squares)) / T(rows.width);
    const T scale = T(1) / sqrt_of(average + eps);
    walk<Loaded>(
        team.rank, team.size, count,
        [&](Index i) {
          return Loaded{rows.kept ? kept[i] : x(offset + i), gamma[i]};
        },
        [&](int, Index i, Loaded v) { y(c, offset + i, v.x * scale * v.gamma); });
    if (team.rank == 0 && count > 0 && rstd != nullptr) rstd[row] = scale;
  }
};

/// dx = rstd (h - n average(h n)) with h = g gamma and n = x rstd; and the sums of g n over each
/// block's rows.
template <class T, class G = Load<T>, class X = Load<T>, class D = Store<T>>
struct RmsNormBackward {
  static constexpr const char* name = "rms_norm_grad";
  static constexpr const char* header = "ops/rms_norm/rms_norm_kernels.h";
  /// Rows that a team works on at once: their loads and sums wait together.
  static constexpr int kRows = 2;

  G g;
  X x;
  D dx;
  const T* rstd;
  const T* gamma;
  T* dgamma;  ///< block b's sums lie at dgamma + b * rows.width
  NormRows rows;
  Index rows_of_block;
  bool sums_kept;  ///< shared memory holds each team's sums; else, of one team, they lie in dgamma
  Watch watch;     ///< for the sums

  struct Pair {
    T g, x;
  };
  struct Loaded {
    T gamma;
    Pair of[kRows];
  };
  // The rows that a team works on, from `first` up to `last`.
  struct Own {
    Index first, last;
    Pair* kept;
    T* dgamma;
    bool begins;  ///< the sums begin with these rows
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Team team = make_team<T>(c, rows.threads, kRows);
    const int teams = c.threads() / team.size;
    unsigned char* free = c.shared() + team_bytes(kRows, sizeof(T));
    T* const sums = reinterpret_cast<T*>(free);
    if (sums_kept) free += teams * rows.width * sizeof(T);
    const Index begin = c.block() * rows_of_block;
    const Index end = begin + rows_of_block < rows.count ? begin + rows_of_block : rows.count;
    T* const block_dgamma = dgamma + c.block() * rows.width;

    Own own{};
    own.last = end;
    own.kept = reinterpret_cast<Pair*>(free) + (rows.kept ? team.index * kRows * rows.width : 0);
    own.dgamma = sums_kept ? sums + team.index * rows.width : block_dgamma;
    for (Index at = begin; at < end; at += teams * kRows) {
      own.first = at + team.index * kRows;
      own.begins = at == begin;
      add_rows(c, team, own);
    }
    if (!sums_kept) return;
    c.barrier();
    for (Index i = c.thread(); i < rows.width; i += c.threads()) {
      T sum = T(0);
      for (int t = 0; t < teams; ++t) sum += sums[t * rows.width + i];
      block_dgamma[i] = watched(c, watch, sum);
    }
  }

  template <class Context>
  METRONOME_DEVICE void add_rows(Context& c, Team& team, const Own& own) const {
    T scale[kRows];
    METRONOME_UNROLL
    for (int r = 0; r < kRows; ++r) {
      scale[r] = own.first + r < own.last ? rstd[own.first + r] : T(0);
    }
    // Of h x; rows beyond the last are zeros.
    T total[kRows] = {};
    walk<Loaded>(
        team.rank, team.size, rows.width,
        [&](Index i) {
          Loaded v;
          v.gamma = gamma[i];
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const Index at = (own.first + r) * rows.width + i;
            v.of[r] = own.first + r < own.last ? Pair{g.first(c, at), x.first(c, at)} : Pair{};
          }
          return v;
        },
        [&](int, Index i, const Loaded& v) {
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            total[r] = fma_of(v.of[r].g * v.gamma, v.of[r].x, total[r]);
            if (rows.kept) own.kept[r * rows.width + i] = v.of[r];
          }
        });
    reduce<Sum, kRows>(c, team, total);
    T slope[kRows];
    METRONOME_UNROLL
    for (int r = 0; r < kRows; ++r) slope[r] = total[r] / T(rows.width) * scale[r];
    walk<Loaded>(
        team.rank, team.size, rows.width,
        [&](Index i) {
          Loaded v;
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
        [&](int, Index i, const Loaded& v) {
          T of_gamma = own.begins ? T(0) : own.dgamma[i];
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const T grad = v.of[r].g, normal = v.of[r].x * scale[r];
            of_gamma = fma_of(grad, normal, of_gamma);
            if (own.first + r < own.last) {
              dx(c, (own.first + r) * rows.width + i,
                 (grad * v.gamma - normal * slope[r]) * scale[r]);
            }
          }
          own.dgamma[i] = of_gamma;
        });
  }
};

/// Sums over `parts` of from[p][i], i < width.
template <class T>
struct RmsNormSums {
  static constexpr const char* name = "rms_norm_sums";
  const T* from;
  T* dgamma;
  Index parts;
  Index width;
  int tile;  ///< columns of a tile
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Tile threads = make_tile<T>(c, tile, 1);
    const Index step = Index(c.blocks()) * tile;
    for (Index begin = Index(c.block()) * tile; begin < width; begin += step) {
      const Index column = begin + threads.column;
      T total[kTogether] = {};
      walk<T>(
          threads.rank, threads.size, column < width ? parts : 0,
          [&](Index p) { return from[p * width + column]; },
          [&](int k, Index, T v) { total[k] += v; });
      const T sum = reduce<Sum>(c, threads, joined<Sum>(total));
      if (threads.rank == 0 && column < width) dgamma[column] = watched(c, watch, sum);
    }
  }
};

using RmsNormKernels =
    KernelList<RmsNormForward<float>, RmsNormForward<double>, RmsNormBackward<float>,
               RmsNormBackward<double>, RmsNormSums<float>, RmsNormSums<double>>;

}  // namespace metronome::cuda
