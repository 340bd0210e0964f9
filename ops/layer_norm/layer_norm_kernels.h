// Layer norm: a warp or a block for each row; the gradients of gamma and beta are summed over each
// block's rows, then over blocks.
#pragma once

#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// fma((x - mean) rstd, gamma, beta), rstd = 1 / sqrt(average((x - mean)^2) + eps).
template <class T, class X = Load<T>, class Y = Store<T>>
struct LayerNormForward {
  static constexpr const char* name = "layer_norm";
  static constexpr const char* header = "ops/layer_norm/layer_norm_kernels.h";
  static constexpr int kSums = 2;  ///< at once
  X x;
  Y y;
  const T* gamma;
  const T* beta;
  T* mean;  ///< may be null
  T* rstd;  ///< may be null
  NormRows rows;
  T eps;

  struct Loaded {
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
    T total[kTogether] = {}, squares[kTogether] = {}, rests[kTogether] = {};
    walk<T>(
        team.rank, team.size, count, [&](Index i) { return x.first(c, offset + i); },
        [&](int k, Index i, T v) {
          total[k] += v;
          if (rows.kept) kept[i] = v;
        });
    const T center = reduce<Sum>(c, team, joined<Sum>(total)) / width;

    // Mean first, then the squares of what differs from it: no cancellation.
    const auto element = [&](Index i) { return rows.kept ? kept[i] : x(offset + i); };
    walk<T>(team.rank, team.size, count, element, [&](int k, Index, T v) {
      const T d = v - center;
      squares[k] = fma_of(d, d, squares[k]);
      rests[k] += d;
    });
    // What rounding the mean left over is taken out.
    T found[2] = {joined<Sum>(squares), joined<Sum>(rests)};
    reduce<Sum, 2>(c, team, found);
    const T rest = found[1] / width, left = found[0] / width - rest * rest;
    T scale = T(1) / sqrt_of((left < T(0) ? T(0) : left) + eps);
    const bool beyond = !(left < Range<T>::highest());
    if (c.ballot(beyond) != 0) {
      const T found_again = scale_again(c, team, count, center, element);
      if (beyond) scale = found_again;
    }
    const T shift = -rest * scale;

    walk<Loaded>(
        team.rank, team.size, count,
        [&](Index i) {
          return Loaded{element(i), gamma[i], beta[i]};
        },
        [&](int, Index i, Loaded v) {
          y(c, offset + i, fma_of(fma_of(v.x - center, scale, shift), v.gamma, v.beta));
        });
    if (team.rank == 0 && count > 0) {
      if (mean != nullptr) mean[row] = center + rest;
      if (rstd != nullptr) rstd[row] = scale;
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
    return smaller / sqrt_of(reduce<Sum>(c, team, joined<Sum>(squares)) / T(rows.width));
  }
};

/// dx = rstd (h - average(h) - n average(h n)) with h = g gamma, n = (d - average(d)) rstd and
/// d = x - mean; and the sums of g n and g over each block's rows.
template <class T, class G = Load<T>, class X = Load<T>, class D = Store<T>>
struct LayerNormBackward {
  static constexpr const char* name = "layer_norm_grad";
  static constexpr const char* header = "ops/layer_norm/layer_norm_kernels.h";
  /// NormRows that a team works on at once: their loads and sums wait together.
  static constexpr int kRows = 2;
  static constexpr int kSums = 3 * kRows;  ///< at once

  G g;
  X x;
  D dx;
  const T* mean;
  const T* rstd;
  const T* gamma;
  T* dgamma;  ///< block b's sums lie at dgamma + b * stride
  T* dbeta;
  Index stride;
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
    T* dbeta;
    bool begins;  ///< the sums begin with these rows
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Team team = make_team<T>(c, rows.threads, kSums);
    const int teams = c.threads() / team.size;
    unsigned char* free = c.shared() + team_bytes(kSums, sizeof(T));
    T* const sums = reinterpret_cast<T*>(free);
    if (sums_kept) free += teams * 2 * rows.width * sizeof(T);
    const Index begin = c.block() * rows_of_block;
    const Index end = begin + rows_of_block < rows.count ? begin + rows_of_block : rows.count;
    T* const block_dgamma = dgamma + c.block() * stride;
    T* const block_dbeta = dbeta + c.block() * stride;

    Own own{};
    own.last = end;
    own.kept = reinterpret_cast<Pair*>(free) + (rows.kept ? team.index * kRows * rows.width : 0);
    own.dgamma = sums_kept ? sums + team.index * 2 * rows.width : block_dgamma;
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
        of_gamma += sums[t * 2 * rows.width + i];
        of_beta += sums[(t * 2 + 1) * rows.width + i];
      }
      block_dgamma[i] = watched(c, watch, of_gamma);
      block_dbeta[i] = watched(c, watch, of_beta);
    }
  }

  template <class Context>
  METRONOME_DEVICE void add_rows(Context& c, Team& team, const Own& own) const {
    T center[kRows], scale[kRows], shift[kRows];
    METRONOME_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const bool real = own.first + r < own.last;
      center[r] = real ? mean[own.first + r] : T(0);
      scale[r] = real ? rstd[own.first + r] : T(0);
    }
    // Of h, h d and d = x - mean, whose average is what rounding the mean left over; rows beyond
    // the last are zeros.
    T total[kSums] = {};
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
            const T h = v.of[r].g * v.gamma;
            const T d = v.of[r].x - center[r];
            total[3 * r] += h;
            total[3 * r + 1] = fma_of(h, d, total[3 * r + 1]);
            total[3 * r + 2] += d;
            if (rows.kept) own.kept[r * rows.width + i] = v.of[r];
          }
        });
    reduce<Sum, kSums>(c, team, total);

    const T width = T(rows.width);
    T average[kRows], slope[kRows];
    METRONOME_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const T rest = T(left_of_mean(double(total[3 * r + 2] / width), center[r]));
      average[r] = total[3 * r] / width;
      slope[r] = (total[3 * r + 1] - rest * total[3 * r]) * (scale[r] / width);
      shift[r] = -rest * scale[r];
    }
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
          T of_beta = own.begins ? T(0) : own.dbeta[i];
          METRONOME_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const T grad = v.of[r].g;
            const T normal = fma_of(v.of[r].x - center[r], scale[r], shift[r]);
            of_gamma = fma_of(grad, normal, of_gamma);
            of_beta += grad;
            const T h = grad * v.gamma - average[r] - normal * slope[r];
            if (own.first + r < own.last) {
              dx(c, (own.first + r) * rows.width + i, h * scale[r]);
            }
          }
          own.dgamma[i] = of_gamma;
          own.dbeta[i] = of_beta;
        });
  }
};

/// Sums over `parts` of from[p][0][i] to dgamma[i], of from[p][1][i] to dbeta[i], i < width.
template <class T>
struct LayerNormSums {
  static constexpr const char* name = "layer_norm_sums";
  const T* from;
  T* dgamma;
  T* dbeta;
  Index parts;
  Index width;
  int tile;  ///< columns of a tile
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Tile threads = make_tile<T>(c, tile, 1);
    const Index columns = 2 * width, step = Index(c.blocks()) * tile;
    for (Index begin = Index(c.block()) * tile; begin < columns; begin += step) {
      const Index column = begin + threads.column;
      T total[kTogether] = {};
      walk<T>(
          threads.rank, threads.size, column < columns ? parts : 0,
          [&](Index p) { return from[p * columns + column]; },
          [&](int k, Index, T v) { total[k] += v; });
      const T sum = reduce<Sum>(c, threads, joined<Sum>(total));
      if (threads.rank == 0 && column < columns) {
        (column < width ? dgamma[column] : dbeta[column - width]) = watched(c, watch, sum);
      }
    }
  }
};

using LayerNormKernels =
    KernelList<LayerNormForward<float>, LayerNormForward<double>, LayerNormBackward<float>,
               LayerNormBackward<double>, LayerNormSums<float>, LayerNormSums<double>>;

}  // namespace metronome::cuda
