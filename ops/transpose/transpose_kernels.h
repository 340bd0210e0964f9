// Dimensions in another order.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// Any order: the result's units one after the other, gathered from the operand.
template <class Unit>
struct Permute {
  static constexpr const char* name = "transpose";
  Unit* to;
  const Unit* from;
  Loops loops;  ///< over the result; steps are the operand's, in units
  Index count;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    walk<Unit>(
        int(first(c)), int(stride(c)), count, [&](Index i) { return from[loops.offset(i)]; },
        [&](int, Index i, const Unit& v) { to[i] = v; });
  }
};

/// Matrices turned over their diagonal, under loops over the other dimensions. Tiles go through
/// shared memory, so that both sides are read and written along their rows. 256 threads.
template <class Unit>
struct TransposeTiles {
  static constexpr const char* name = "transpose";
  static constexpr int kTile = 32;
  static constexpr int kLine = kTile + 1;  ///< columns lie in different banks
  static constexpr int kShared = kTile * kLine * sizeof(Unit);
  static constexpr int kThreads = 256;
  Unit* to;
  const Unit* from;
  Index rows, columns;         ///< of the operand's matrix
  Index from_step;             ///< from row to row of the operand; columns are dense
  Index to_step;               ///< from column to column of the result; rows are dense
  Loops outer_from, outer_to;  ///< the loops over matrices, and where they lie
  Index row_tiles, column_tiles;
  Index tiles;  ///< of all matrices

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    Unit* const tile = reinterpret_cast<Unit*>(c.shared());
    const int lane = c.thread() % kTile, line = c.thread() / kTile;
    constexpr int kLines = kThreads / kTile;
    for (Index t = c.block(); t < tiles; t += c.blocks()) {
      const Index strip = quotient(t, column_tiles), matrix = quotient(strip, row_tiles);
      const Index row = (strip - matrix * row_tiles) * kTile;
      const Index column = (t - strip * column_tiles) * kTile;
      const Unit* const source = from + outer_from.offset(matrix);
      Unit* const target = to + outer_to.offset(matrix);
      for (int k = line; k < kTile; k += kLines) {
        if (row + k < rows && column + lane < columns) {
          tile[k * kLine + lane] = source[(row + k) * from_step + column + lane];
        }
      }
      c.barrier();
      for (int k = line; k < kTile; k += kLines) {
        if (column + k < columns && row + lane < rows) {
          target[(column + k) * to_step + row + lane] = tile[lane * kLine + k];
        }
      }
      c.barrier();
    }
  }
};

using TransposeKernels = KernelList<Permute<Unit1>, Permute<Unit2>, Permute<Unit4>, Permute<Unit8>,
                                    Permute<Unit16>, TransposeTiles<Unit1>, TransposeTiles<Unit2>,
                                    TransposeTiles<Unit4>, TransposeTiles<Unit8>>;

}  // namespace metronome::cuda
