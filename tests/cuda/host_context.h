// The context of kernels on the host: see ops/kernel/kernel.h for what it promises. It holds no
// state of a block but asks the block through an interface, so that code compiled at run time can
// use it without linking to anything.
#pragma once

#include <cstdint>
#include <cstring>

#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// A meeting of the threads of a block, and the line of the kernel's text that asks for it.
struct Meeting {
  enum class Kind : std::uint8_t { barrier, shuffle_xor, shuffle_down, shuffle, ballot };
  Kind kind = Kind::barrier;
  int bytes = 0;    ///< of the value that a lane gives
  int operand = 0;  ///< mask or delta: the same in all lanes
  const char* file = "";
  int line = 0;
};

/// The calls that a thread makes on its block.
class HostBlock {
 public:
  /// Returns when all threads of the block are there.
  virtual void barrier(int thread, const Meeting& meeting) = 0;
  /// Returns when all lanes of the thread's warp are there: what each of the 32 gave, which stays
  /// until the lane's next exchange.
  virtual const std::uint64_t* exchange(int thread, const Meeting& meeting, std::uint64_t bits) = 0;
  /// Ends the block with an error; does not return.
  [[noreturn]] virtual void refuse(int thread, const char* what) = 0;

 protected:
  ~HostBlock() = default;
};

class HostContext {
 public:
  HostContext() = default;
  HostContext(HostBlock* owner, int thread, int threads, int block, int blocks,
              unsigned char* shared)
      : owner_(owner),
        shared_(shared),
        thread_(thread),
        threads_(threads),
        block_(block),
        blocks_(blocks) {}

  int thread() const { return thread_; }
  int threads() const { return threads_; }
  int block() const { return block_; }
  int blocks() const { return blocks_; }
  unsigned char* shared() { return shared_; }

  void barrier(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    owner_->barrier(thread_, {Meeting::Kind::barrier, 0, 0, file, line});
  }
  template <class T>
  T shuffle_xor(T v, int mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (mask < 0 || mask >= kWarp) owner_->refuse(thread_, "shuffle_xor by a mask beyond the warp");
    return exchanged(v, {Meeting::Kind::shuffle_xor, sizeof(T), mask, file, line}, lane() ^ mask);
  }
  template <class T>
  T shuffle_down(T v, int delta, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (delta < 0 || delta >= kWarp) owner_->refuse(thread_, "shuffle_down by more than the warp");
    const int from = lane() + delta < kWarp ? lane() + delta : lane();
    return exchanged(v, {Meeting::Kind::shuffle_down, sizeof(T), delta, file, line}, from);
  }
  template <class T>
  T shuffle(T v, int lane, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (lane < 0 || lane >= kWarp) owner_->refuse(thread_, "shuffle from a lane beyond the warp");
    return exchanged(v, {Meeting::Kind::shuffle, sizeof(T), 0, file, line}, lane);
  }
  unsigned ballot(bool v, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const std::uint64_t* lanes =
        owner_->exchange(thread_, {Meeting::Kind::ballot, 1, 0, file, line}, v);
    unsigned votes = 0;
    for (int i = 0; i < kWarp; ++i) votes |= static_cast<unsigned>(lanes[i]) << i;
    return votes;
  }
  int atomic_add(int* p, int v) {
    const int old = *p;
    *p += v;
    return old;
  }
  int atomic_min(int* p, int v) { return least(p, v); }
  Index atomic_min(Index* p, Index v) { return least(p, v); }

 private:
  int lane() const { return thread_ % kWarp; }

  template <class T>
  static T least(T* p, T v) {
    const T old = *p;
    if (v < old) *p = v;
    return old;
  }

  template <class T>
  T exchanged(T v, const Meeting& meeting, int from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof(T));
    const std::uint64_t* lanes = owner_->exchange(thread_, meeting, bits);
    std::memcpy(&v, &lanes[from], sizeof(T));
    return v;
  }

  HostBlock* owner_ = nullptr;
  unsigned char* shared_ = nullptr;
  int thread_ = 0;
  int threads_ = 0;
  int block_ = 0;
  int blocks_ = 0;
};

}  // namespace metronome::cuda
