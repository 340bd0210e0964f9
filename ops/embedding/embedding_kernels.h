// Rows of a table by index, and its gradient.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// I: of the index.
template <class Unit, class I>
struct Embedding {
  static constexpr const char* name = "embedding";
  Unit* to;
  const Unit* table;
  const I* index;
  Index rows;   ///< of the table
  Index width;  ///< units of a row
  Index count;  ///< units of the result
  Lookups lookups;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) {
      const Index at = quotient(i, width), row = index[at];
      if (row >= 0 && row < rows) {
        to[i] = table[row * width + i - at * width];
      } else {
        to[i] = Unit{};
        report(c, lookups, row);
      }
    }
  }
};

/// Sums in the order of the indices, so the same bits as the CPU's, without a sort and without
/// floating-point atomics. A block has up to 32 rows of the table, one for each warp, and some
/// columns of them. It reads all indices, a round of them at a time: threads vote on who has one of
/// the block's rows, and hits are listed in order in shared memory. All warps bring the gradients
/// of some hits there, and each adds those of its row: so many load for a row that has most of the
/// hits, and only its additions wait for each other. With up to 32 rows a block, indices are read
/// rows / 32 times for each strip of columns, from the caches.
template <class T, class I>
struct EmbeddingGrad {
  static constexpr const char* name = "embedding_grad";
  static constexpr int most_threads = kWarp * kWarp;  ///< `hits` keeps a row's number in 5 bits
  static constexpr int kVotes = 4;                    ///< indices that a thread votes on in a round
  static constexpr int kColumns = 32 / sizeof(T);     ///< of a lane at most
  static constexpr int kHits = 4;                     ///< gradients that a warp reads together
  static constexpr int kPieces = 16384 / (kWarp * sizeof(T));  ///< of gradients, in shared memory
  T* to;
  const T* from;
  const I* index;
  Index rows, width;
  Index count;   ///< of indices
  Index strips;  ///< of columns; a block has one strip of its rows
  int columns;   ///< of a lane: a strip is so many pieces of a warp's columns
  Watch watch;

  /// Pieces, a number of hits for each warp, and a hit for each index of a round.
  static METRONOME_DEVICE constexpr int shared_bytes(int threads) {
    return kPieces * kWarp * int(sizeof(T)) +
           (threads / kWarp + threads * kVotes) * int(sizeof(int));
  }

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int lane = c.thread() % kWarp, warp = c.thread() / kWarp, warps = c.threads() / kWarp;
    T* const pieces = reinterpret_cast<T*>(c.shared());
    int* const hits_of_warp = reinterpret_cast<int*>(pieces + kPieces * kWarp);
    int* const hits = hits_of_warp + warps;
    const Index group = quotient(c.block(), strips);
    const Index row0 = group * warps;
    const Index column0 = (c.block() - group * strips) * columns * kWarp + lane;
    T sum[kColumns];
    METRONOME_UNROLL
    for (int k = 0; k < kColumns; ++k) sum[k] = T(0);

    for (Index base = 0; base < count; base += Index(c.threads()) * kVotes) {
      const int begin = warp * kWarp * kVotes + lane;  // of the warp's indices in the round
      int row[kVotes];
      unsigned votes[kVotes];
      int mine = 0;
      METRONOME_UNROLL
      for (int k = 0; k < kVotes; ++k) {
        const Index i = base + begin + k * kWarp;
        const Index at = i < count ? Index(index[i]) : -1;
        row[k] = at >= row0 && at < row0 + warps && at < rows ? int(at - row0) : -1;
      }
      METRONOME_UNROLL
      for (int k = 0; k < kVotes; ++k) {
        votes[k] = c.ballot(row[k] >= 0);
        mine += bit_count(votes[k]);
      }
      if (lane == 0) hits_of_warp[warp] = mine;
      c.barrier();
      int from_here = lane < warps ? hits_of_warp[lane] : 0;  // hits of this warp and of later ones
      METRONOME_UNROLL
      for (int delta = 1; delta < kWarp; delta *= 2) {
        const int later = c.shuffle_down(from_here, delta);
        if (lane + delta < kWarp) from_here += later;
      }
      const int total = c.shuffle(from_here, 0);
      int place = total - c.shuffle(from_here, warp);
      METRONOME_UNROLL
      for (int k = 0; k < kVotes; ++k) {
        const int before = bit_count(votes[k] & ((1u << lane) - 1));
        if (row[k] >= 0) hits[place + before] = (begin + k * kWarp) * kWarp + row[k];
        place += bit_count(votes[k]);
      }
      c.barrier();
      const int together = kPieces / columns;
      for (int h = 0; h < total; h += together) {
        const int some = total - h < together ? total - h : together;
        bring(c, hits + h, some, base, column0, pieces);
        c.barrier();
        add(c, hits + h, some, pieces, sum);
        c.barrier();
      }
    }

    if (row0 + warp >= rows) return;
    METRONOME_UNROLL
    for (int k = 0; k < kColumns; ++k) {
      const Index column = column0 + k * kWarp;
      if (k < columns && column < width) {
        to[(row0 + warp) * width + column] = watch_number(c, watch, sum[k]);
      }
    }
  }

 private:
  /// The strip's gradients of some hits into shared memory, one after the other.
  template <class Context>
  METRONOME_DEVICE void bring(Context& c, const int* hits, int some, Index base, Index column0,
                              T* pieces) const {
    const int lane = c.thread() % kWarp;
    walk<T>(
        c.thread() / kWarp, c.threads() / kWarp, some * columns,
        [&](Index piece) {
          const int hit = int(piece) / columns;
          const Index column = column0 + (int(piece) - hit * columns) * kWarp;
          return column < width ? from[(base + hits[hit] / kWarp) * width + column] : T(0);
        },
        [&](int, Index piece, T v) { pieces[piece * kWarp + lane] = v; });
  }

  /// Adds those of the warp's row, in order.
  template <class Context>
  METRONOME_DEVICE void add(Context& c, const int* hits, int some, const T* pieces,
                            T (&sum)[kColumns]) const {
    const int lane = c.thread() % kWarp, warp = c.thread() / kWarp;
    for (int h = 0; h < some; h += kWarp) {
      unsigned bits = c.ballot(h + lane < some && hits[h + lane] % kWarp == warp);
      while (bits != 0) {
        T x[kHits][kColumns];
        METRONOME_UNROLL
        for (int n = 0; n < kHits; ++n) {
          const bool there = bits != 0;
          const T* const strip =
              pieces + (h + (there ? lowest_bit(bits) : 0)) * columns * kWarp + lane;
          bits &= bits - 1;
          METRONOME_UNROLL
          for (int k = 0; k < kColumns; ++k) {
            // If there is no hit or column, -0 is added, which changes no sum.
            x[n][k] = there && k < columns ? strip[k * kWarp] : T(-0.0);
          }
        }
        METRONOME_UNROLL
        for (int n = 0; n < kHits; ++n) {
          METRONOME_UNROLL
          for (int k = 0; k < kColumns; ++k) sum[k] += x[n][k];
        }
      }
    }
  }
};

using EmbeddingKernels =
    KernelList<Embedding<Unit1, int>, Embedding<Unit1, long long>, Embedding<Unit2, int>,
               Embedding<Unit2, long long>, Embedding<Unit4, int>, Embedding<Unit4, long long>,
               Embedding<Unit8, int>, Embedding<Unit8, long long>, Embedding<Unit16, int>,
               Embedding<Unit16, long long>, EmbeddingGrad<float, int>,
               EmbeddingGrad<float, long long>, EmbeddingGrad<double, int>,
               EmbeddingGrad<double, long long>>;

}  // namespace metronome::cuda
