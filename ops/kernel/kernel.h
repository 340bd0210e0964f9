// The parts of a CUDA kernel. Every header that kernels include is compiled by nvcc, by NVRTC
// and by the host's compiler, so it uses built-in types and no standard header.
//
// A kernel is a struct of plain arguments with a body that is a template over its context:
//
//   template <class T>
//   struct Scale {
//     static constexpr const char* name = "scale";
//     const T* x;
//     T* y;
//     Index count;
//     template <class Context>
//     METRONOME_DEVICE void operator()(Context& c) const {
//       for (Index i = first(c); i < count; i += stride(c)) y[i] = T(2) * x[i];
//     }
//   };
//
// A Context is one thread of a block of one dimension, in a grid of one dimension:
//
//   int thread(), threads()            this thread, and how many the block has
//   int block(), blocks()              this block, and how many the grid has
//   void barrier()                     all threads of the block
//   T shuffle_xor(T v, int mask)       from lane ^ mask of the warp; T of 4 or 8 bytes
//   T shuffle_down(T v, int delta)     from lane + delta; its own v past the last lane
//   T shuffle(T v, int lane)           from one lane
//   unsigned ballot(bool v)            the warp's votes, one bit a lane
//   int atomic_add(int* p, int v)      the old value; integers only
//   T atomic_min(T* p, T v)            the same; T: int or Index
//   unsigned char* shared()            the block's shared memory, as launched; 16-byte aligned
//
// Bodies use nothing else, so that tests can run them on the host, thread by thread. All threads of
// a block reach every barrier, all lanes of a warp every shuffle and ballot: no early return before
// one, none in divergent code. Blocks have a multiple of 32 threads. No floating-point atomics: a
// result never depends on which thread came first. Multiply-adds are fused only where `fma` is
// written.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define METRONOME_DEVICE __device__ __forceinline__
#else
#define METRONOME_DEVICE inline
#endif

namespace metronome::cuda {

/// Counts and positions of elements; the same size as std::int64_t, whatever that is here.
using Index = long long;

constexpr int kWarp = 32;

/// How a kernel is launched.
struct KernelShape {
  Index blocks = 1;
  int threads = kWarp;   ///< a multiple of 32, at most 1024
  int shared_bytes = 0;  ///< at most 48 KiB
};

/// A kernel reports here an index of something that is not there, or the order of a number that is
/// refused: the step's least place is kept, and for each place the least index. Off if `place` is
/// null.
struct Lookups {
  int* place = nullptr;         ///< the step's
  Index* index = nullptr;       ///< this node's
  const bool* guard = nullptr;  ///< where it is false nothing is reported; null: none
  int own = 0;                  ///< this node's place
  int unused = 0;
};

/// In the branch that an index in range does not take.
template <class Context>
METRONOME_DEVICE void report(Context& c, const Lookups& lookups, Index index) {
  if (lookups.place != nullptr && (lookups.guard == nullptr || *lookups.guard)) {
    c.atomic_min(lookups.place, lookups.own);
    c.atomic_min(lookups.index, index);
  }
}

/// An integer for each number, in the order of numbers, of which a NaN is the greatest.
METRONOME_DEVICE Index order_of(double number) {
  if (number != number) return 0x7FF8000000000000ll;
  const auto bits = __builtin_bit_cast(Index, number);
  return bits < 0 ? bits ^ 0x7FFFFFFFFFFFFFFFll : bits;
}
/// The number of that order.
METRONOME_DEVICE double number_of(Index order) {
  return __builtin_bit_cast(double, order < 0 ? order ^ 0x7FFFFFFFFFFFFFFFll : order);
}

/// A kernel reports here numbers that are not finite. A report is no fault yet: the step's last
/// kernel finds who made the number. Off if `met` is null.
struct Watch {
  int* met = nullptr;           ///< this node's: not zero where it stored a NaN; an infinity
  int* any = nullptr;           ///< the step's: not zero where a node stored either
  const bool* guard = nullptr;  ///< where it is false nothing is told; null: none
};

template <class Context>
METRONOME_DEVICE void tell(Context& c, const Watch& watch, bool nan) {
  if (watch.met != nullptr && (watch.guard == nullptr || *watch.guard)) {
    int* const met = watch.met + (nan ? 0 : 1);
    if (*met != 0) return;  // a mask of infinities tells once, not once for each element
    c.atomic_min(met, -1);
    c.atomic_min(watch.any, -1);
  }
}

template <class Context>
METRONOME_DEVICE Index first(const Context& c) {
  return Index(c.block()) * c.threads() + c.thread();
}
template <class Context>
METRONOME_DEVICE Index stride(const Context& c) {
  return Index(c.blocks()) * c.threads();
}

/// Tells of v if it is NaN or infinite; gives v back.
template <class Context, class T>
METRONOME_DEVICE T watch_number(Context& c, const Watch& watch, T v) {
  if constexpr (T(0.5) != T(0)) {  // floating types
    if (!(v - v == T(0))) tell(c, watch, v != v);
  }
  return v;
}

/// The kernels of one header, each with its argument types: what is compiled for devices.
template <class... Kernels>
struct KernelList {};

/// Several lists as one.
template <class... Lists>
struct JoinedList;
template <class... Kernels>
struct JoinedList<KernelList<Kernels...>> {
  using type = KernelList<Kernels...>;
};
template <class... First, class... Second, class... Rest>
struct JoinedList<KernelList<First...>, KernelList<Second...>, Rest...> {
  using type = typename JoinedList<KernelList<First..., Second...>, Rest...>::type;
};

}  // namespace metronome::cuda
