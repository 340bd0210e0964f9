// Which rows each expert takes: the choices, row by row, then the places, expert by expert.
#pragma once

#include "ops/cuda/index.h"
#include "ops/cuda/kernel.h"
#include "ops/cuda/reduce.h"

namespace metronome::cuda {

/// The experts that each row chooses. A thread has a row; each turn finds the first expert after
/// the last one chosen, in the order in which the row chooses.
template <class T>
struct RouteChoices {
  static constexpr const char* name = "route_choices";
  Index* choice;
  const T* weights;
  Index rows, experts, top;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index row = first(c); row < rows; row += stride(c)) {
      const T* const w = weights + row * experts;
      Index last = -1;
      for (Index k = 0; k < top; ++k) {
        Index best = -1;
        for (Index e = 0; e < experts; ++e) {
          if (last >= 0 && !before(w[last], last, w[e], e)) continue;
          if (best < 0 || before(w[e], e, w[best], best)) best = e;
        }
        choice[k * rows + row] = row * experts + best;
        last = best;
      }
    }
  }

 private:
  /// True where expert a, of weight x, is chosen before expert b, of weight y.
  static METRONOME_DEVICE bool before(T x, Index a, T y, Index b) {
    if (x == y || (x != x && y != y)) return a < b;
    return x > y || x != x;
  }
};

/// The places. A block of one warp has an expert and reads all choices in their order, so that
/// places depend on nothing else.
struct RouteSlots {
  static constexpr const char* name = "route_slots";
  static constexpr int kVotes = 4;  ///< choices that a lane votes on in a round
  Index* slot;
  Index* row_of;  ///< a slot's
  Index* load;
  const Index* choice;
  Index rows, experts, top, slots;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const Index expert = c.block();
    const int lane = c.thread();
    Index taken = 0;
    for (Index k = 0; k < top; ++k) {
      for (Index base = 0; base < rows; base += kWarp * kVotes) {
        bool mine[kVotes];
        METRONOME_UNROLL
        for (int v = 0; v < kVotes; ++v) {
          const Index row = base + v * kWarp + lane;
          mine[v] = row < rows && choice[k * rows + row] == row * experts + expert;
        }
        METRONOME_UNROLL
        for (int v = 0; v < kVotes; ++v) {
          const Index row = base + v * kWarp + lane;
          const unsigned votes = c.ballot(mine[v]);
          const Index place = taken + bit_count(votes & ((1u << lane) - 1));
          if (mine[v]) put(k * rows + row, row, expert, place);
          taken += bit_count(votes);
        }
      }
    }
    for (Index place = taken + lane; place < slots; place += kWarp) {
      row_of[expert * slots + place] = 0;
    }
    if (lane == 0) load[expert] = taken;
  }

 private:
  METRONOME_DEVICE void put(Index at, Index row, Index expert, Index place) const {
    const bool kept = place < slots;
    slot[at] = kept ? expert * slots + place : experts * slots;
    if (kept) row_of[expert * slots + place] = row;
  }
};

using RouteKernels = KernelList<RouteChoices<float>, RouteChoices<double>, RouteSlots>;

}  // namespace metronome::cuda
