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
/// floating-point atomics. A block has as many rows of the table as warps, and some columns of
/// them. It reads all indices, a round of them at a time: threads vote on who has one of the
/// block's rows, hits are listed in order in shared memory, and each warp adds those of its row.
/// With up to 32 rows a block, indices are read rows / 32 times, from the caches.
template <class T, class I>
struct EmbeddingGrad {
  static constexpr const char* name = "embedding_grad";
  static constexpr int most_threads = kWarp * kWarp;  ///< `hits` keeps a row's number in 5 bits
  static constexpr int kVotes = 4;                    ///< indices that a thread votes on in a round
  static constexpr int kColumns = 32 / sizeof(T);     ///< of a lane
  static constexpr int kStrip = kWarp * kColumns;     ///< columns of a block
  static constexpr int kHits = 2;                     ///< gradients loaded together
  T* to;
  const T* from;
  const I* index;
  Index rows, width;
  Index count;   ///< of indices
  Index strips;  ///< of columns; a block has one strip of its rows
  Watch watch;

  /// A number of hits for each warp, and a hit for each index of a round.
  static METRONOME_DEVICE constexpr int shared_bytes(int threads) {
    return (threads / kWarp + threads * kVotes) * int(sizeof(int));
  }

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int lane = c.thread() % kWarp, warp = c.thread() / kWarp, warps = c.threads() / kWarp;
    int* const hits_of_warp = reinterpret_cast<int*>(c.shared());
    int* const hits = hits_of_warp + warps;
    const Index group = quotient(c.block(), strips);
    const Index row0 = group * warps, column0 = (c.block() - group * strips) * kStrip + lane;
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
      int place = 0, total = 0;
      for (int w = 0; w < warps; ++w) {
        if (w == warp) place = total;
        total += hits_of_warp[w];
      }
      METRONOME_UNROLL
      for (int k = 0; k < kVotes; ++k) {
        const int before = bit_count(votes[k] & ((1u << lane) - 1));
        if (row[k] >= 0) hits[place + before] = (begin + k * kWarp) * kWarp + row[k];
        place += bit_count(votes[k]);
      }
      c.barrier();
      for (int h = 0; h < total; h += kWarp) {
        const bool in_row = h + lane < total && hits[h + lane] % kWarp == warp;
        add(c.ballot(in_row), hits + h, base, column0, sum);
      }
    }

    if (row0 + warp >= rows) return;
    METRONOME_UNROLL
    for (int k = 0; k < kColumns; ++k) {
      const Index column = column0 + k * kWarp;
      if (column < width) to[(row0 + warp) * width + column] = watched(c, watch, sum[k]);
    }
  }

 private:
  /// Adds the hits whose bits are set, the lowest first.
  METRONOME_DEVICE void add(unsigned bits, const int* hits, Index base, Index column0,
                            T (&sum)[kColumns]) const {
    while (bits != 0) {
      T x[kHits][kColumns];
      METRONOME_UNROLL
      for (int n = 0; n < kHits; ++n) {
        const bool there = bits != 0;
        const Index i = there ? base + hits[lowest_bit(bits)] / kWarp : 0;
        bits &= bits - 1;
        METRONOME_UNROLL
        for (int k = 0; k < kColumns; ++k) {
          const Index column = column0 + k * kWarp;
          // Where there is none -0, which changes no sum.
          x[n][k] = there && column < width ? from[i * width + column] : T(-0.0);
        }
      }
      METRONOME_UNROLL
      for (int n = 0; n < kHits; ++n) {
        METRONOME_UNROLL
        for (int k = 0; k < kColumns; ++k) sum[k] += x[n][k];
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
