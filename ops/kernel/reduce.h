// Parts that reducing kernels share: how they read and write the tensors they walk over, how
// threads share out a row, and sums over a team of threads as fixed trees.
//
// Streamed operands and results. A kernel that walks over a tensor takes it as a functor, a
// template parameter and one of its first members, in the order operands, results:
//
//   template <class T, class X = Load<T>, class Y = Store<T>>
//   struct SoftmaxForward {
//     static constexpr const char* name = "softmax";
//     static constexpr const char* header = "ops/softmax/softmax_kernels.h";
//     X x;
//     Y y;
//     SoftmaxLines lines;
//     ...
//
// Alone it runs with Load and Store, which read and write memory. A fused group writes functors of
// its own, which compute an operand's element from elements of other tensors and map a result's
// element before it is stored, and the same kernel runs with them: the same code and the same map
// of elements to threads, so the same bits. An operand X of elements T has
//
//   T first(Context& c, Index i) const   exactly once for each element i, before any x(i) of it:
//                                        here a group also stores what leaves it
//   T operator()(Index i) const          any number of times after that, from any thread of the
//                                        block that called first(i): a barrier lies between them
//                                        where it is another thread
//
// and a result Y
//
//   void operator()(Context& c, Index i, T v) const   exactly once for each element
//
// after the last x(i) of the same element, by the thread that made it: so that a result may lie
// over an operand. Kernels that promise less say so. Elements are counted row-major over the whole
// tensor.
//
// Lambdas in kernels name their parameters' types: NVRTC takes no generic ones.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"

/// Before a loop of a constant count: unrolls it on a device.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define METRONOME_UNROLL _Pragma("unroll")
#else
#define METRONOME_UNROLL
#endif

namespace metronome::cuda {

/// An operand in memory.
template <class T>
struct Load {
  const T* p;
  METRONOME_DEVICE T operator()(Index i) const { return p[i]; }
  template <class Context>
  METRONOME_DEVICE T first(Context&, Index i) const {
    return p[i];
  }
};

/// A result in memory.
template <class T>
struct Store {
  T* p;
  Watch watch;
  template <class Context>
  METRONOME_DEVICE void operator()(Context& c, Index i, T v) const {
    p[i] = watch_number(c, watch, v);
  }
};

/// How two partial results become one, and what stands for none. Joined either way round they have
/// the same bits (but for the sign of a zero and a NaN's payload).
struct Sum {
  template <class T>
  static METRONOME_DEVICE T none() {
    return T(0);
  }
  template <class T>
  static METRONOME_DEVICE T join(T a, T b) {
    return a + b;
  }
};
struct Max {  // a NaN wins
  template <class T>
  static METRONOME_DEVICE T none() {
    return Range<T>::lowest();
  }
  template <class T>
  static METRONOME_DEVICE T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {  // a NaN wins
  template <class T>
  static METRONOME_DEVICE T none() {
    return Range<T>::highest();
  }
  template <class T>
  static METRONOME_DEVICE T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

/// Threads that share a row: 1, 2, 4, 8, 16 or 32 lanes of a warp, or the whole block. A block
/// holds threads / size teams.
struct Team {
  int size;
  int index;                ///< which of the block's teams
  int rank;                 ///< this thread's place in it
  unsigned char* partials;  ///< shared memory, `team_bytes` of it: where warps meet
  int half;                 ///< bytes of one half of it
  int turn = 0;             ///< which half the next reduction takes
};

/// Rows of `width` neighbouring elements that are normalised.
struct NormRows {
  Index count = 0;
  Index width = 0;
  int threads = 0;    ///< those of a row's team
  bool kept = false;  ///< shared memory holds the rows that the block's teams work on
};

/// Bytes at the beginning of shared memory for reductions of up to `values` numbers of `size` bytes
/// at once.
METRONOME_DEVICE constexpr int team_bytes(int values, int size) {
  return 2 * kWarp * values * size;
}

/// Teams of `size` threads for reductions of up to `values` numbers of T at once.
template <class T, class Context>
METRONOME_DEVICE Team make_team(Context& c, int size, int values) {
  return {size, c.thread() / size, c.thread() % size, c.shared(),
          team_bytes(values, sizeof(T)) / 2};
}

/// Joins each of N numbers over the team; every thread of it gets all results. All threads of the
/// block call it together.
///
/// The tree: within a warp lanes whose numbers differ in bit 4, 3, .. 0 of `rank`, then warps
/// likewise. Two calls one after the other use different halves of the shared memory, so that one
/// barrier each is enough: a thread that writes to a half has passed the barrier of the call
/// between, and so has everyone who read from it.
template <class How, int N, class T, class Context>
METRONOME_DEVICE void reduce(Context& c, Team& team, T (&v)[N]) {
  const int lanes = team.size < kWarp ? team.size : kWarp;
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    METRONOME_UNROLL
    for (int n = 0; n < N; ++n) v[n] = How::join(v[n], c.shuffle_xor(v[n], mask));
  }
  if (team.size <= kWarp) return;
  T* const partials = reinterpret_cast<T*>(team.partials + team.turn * team.half);
  team.turn ^= 1;
  const int warps = team.size / kWarp, warp = c.thread() / kWarp, lane = c.thread() % kWarp;
  if (lane == 0) {
    METRONOME_UNROLL
    for (int n = 0; n < N; ++n) partials[n * kWarp + warp] = v[n];
  }
  c.barrier();
  METRONOME_UNROLL
  for (int n = 0; n < N; ++n) {
    v[n] = lane < warps ? partials[n * kWarp + lane] : How::template none<T>();
  }
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    METRONOME_UNROLL
    for (int n = 0; n < N; ++n) v[n] = How::join(v[n], c.shuffle_xor(v[n], mask));
  }
}

/// Loads in flight at once in `walk`, and the independent partial results that its callers keep.
constexpr int kTogether = 4;

/// use(k, i, load(i)) for this thread's elements i of 0 .. count: rank, rank + size, ... in order,
/// with k = 0 .. kTogether - 1 in turn. Loads of kTogether elements come before their uses, so
/// that they wait for memory together. `V` is what load gives; `Count`: Index, or int where there
/// are never more, which takes fewer registers.
template <class V, class Count, class LoadOne, class UseOne>
METRONOME_DEVICE void walk(int rank, int size, Count count, const LoadOne& load,
                           const UseOne& use) {
  METRONOME_ROLLED
  for (Count base = rank; base < count; base += Count(kTogether) * size) {
    V v[kTogether];
    METRONOME_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      const Count i = base + Count(k) * size;
      if (i < count) v[k] = load(i);
    }
    METRONOME_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      const Count i = base + Count(k) * size;
      if (i < count) use(k, i, v[k]);
    }
  }
}

/// One number from those of `walk`'s turns: a tree of fixed form.
template <class How, class T>
METRONOME_DEVICE T join_all(const T (&v)[kTogether]) {
  static_assert(kTogether == 4);
  return How::join(How::join(v[0], v[1]), How::join(v[2], v[3]));
}

/// Threads that share a tile of neighbouring columns: 1, 2, 4, 8, 16 or 32 columns, so that a warp
/// reads neighbours, and for each as many threads as there are in the block beside.
struct Tile {
  int width;   ///< columns
  int column;  ///< this thread's
  int size;    ///< threads that share a column
  int rank;    ///< this thread's place among them
  unsigned char* partials;
  int half;
  int turn = 0;
};

/// Bytes at the beginning of shared memory for reductions of up to `values` numbers of `size` bytes
/// at once.
METRONOME_DEVICE constexpr int tile_bytes(int threads, int width, int values, int size) {
  return 2 * (threads / kWarp * width * values * size + 15) / 16 * 16;
}

template <class T, class Context>
METRONOME_DEVICE Tile make_tile(Context& c, int width, int values) {
  return {width,
          c.thread() % width,
          c.threads() / width,
          c.thread() / width,
          c.shared(),
          tile_bytes(c.threads(), width, values, sizeof(T)) / 2};
}

/// Joins each of N numbers over the threads of a column; all of them get the results. All threads
/// of the block call it together. The tree: in a warp as in `reduce` above, then warps in turn to
/// kTogether sums.
template <class How, int N, class T, class Context>
METRONOME_DEVICE void reduce(Context& c, Tile& tile, T (&v)[N]) {
  for (int mask = kWarp / 2; mask >= tile.width; mask /= 2) {
    METRONOME_UNROLL
    for (int n = 0; n < N; ++n) v[n] = How::join(v[n], c.shuffle_xor(v[n], mask));
  }
  const int warps = c.threads() / kWarp;
  if (warps == 1) return;
  T* const partials = reinterpret_cast<T*>(tile.partials + tile.turn * tile.half);
  tile.turn ^= 1;
  if (c.thread() % kWarp < tile.width) {
    METRONOME_UNROLL
    for (int n = 0; n < N; ++n) {
      partials[(n * warps + c.thread() / kWarp) * tile.width + tile.column] = v[n];
    }
  }
  c.barrier();
  METRONOME_UNROLL
  for (int n = 0; n < N; ++n) {
    T sums[kTogether] = {How::template none<T>(), How::template none<T>(), How::template none<T>(),
                         How::template none<T>()};
    for (int w = 0; w < warps; w += kTogether) {
      METRONOME_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        if (w + k >= warps) continue;
        sums[k] = How::join(sums[k], partials[(n * warps + w + k) * tile.width + tile.column]);
      }
    }
    v[n] = join_all<How>(sums);
  }
}

/// Over a Team or a Tile.
template <class How, class T, class Context, class Threads>
METRONOME_DEVICE T reduce(Context& c, Threads& threads, T v) {
  T values[1] = {v};
  reduce<How, 1>(c, threads, values);
  return values[0];
}

}  // namespace metronome::cuda
