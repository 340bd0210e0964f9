// The rows that each expert takes: the choices, row by row, then the places, expert by expert.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

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

/// The places. A block has an expert and reads all choices in their order, a round at a time, so
/// that places depend on nothing else. Its shared memory holds an int for each warp.
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
    const Index expert = c.block(), count = top * rows;
    const int lane = c.thread() % kWarp, warp = c.thread() / kWarp, warps = c.threads() / kWarp;
    int* const hits_of_warp = reinterpret_cast<int*>(c.shared());
    Index taken = 0;
    for (Index base = 0; base < count; base += Index(c.threads()) * kVotes) {
      const Index begin = base + warp * kWarp * kVotes + lane;
      Index row[kVotes];  // -1 where another expert is chosen
      unsigned votes[kVotes];
      int mine = 0;
      METRONOME_UNROLL
      for (int v = 0; v < kVotes; ++v) {
        const Index i = begin + v * kWarp, chosen = i < count ? choice[i] : 0;
        row[v] = quotient(chosen, experts);
        if (i >= count || chosen != row[v] * experts + expert) row[v] = -1;
      }
      METRONOME_UNROLL
      for (int v = 0; v < kVotes; ++v) {
        votes[v] = c.ballot(row[v] >= 0);
        mine += bit_count(votes[v]);
      }
      if (lane == 0) hits_of_warp[warp] = mine;
      c.barrier();
      Index place = taken;
      for (int w = 0; w < warps; ++w) {
        if (w < warp) place += hits_of_warp[w];
        taken += hits_of_warp[w];
      }
      c.barrier();
      METRONOME_UNROLL
      for (int v = 0; v < kVotes; ++v) {
        const int before = bit_count(votes[v] & ((1u << lane) - 1));
        if (row[v] >= 0) put(begin + v * kWarp, row[v], expert, place + before);
        place += bit_count(votes[v]);
      }
    }
    for (Index place = taken + c.thread(); place < slots; place += c.threads()) {
      row_of[expert * slots + place] = 0;
    }
    if (c.thread() == 0) load[expert] = taken;
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
