// Runs a kernel's body on the host: each thread of a block is a fiber that runs until it meets
// others, so a body that forgets a barrier gives other results in another order, and one that
// breaks the rules of ops/kernel/kernel.h ends with a sentence that says where.
//
//   BlockExecutor blocks;
//   blocks.run("scale", {.blocks = 4, .threads = 128}, [&](HostContext& c) { kernel(c); }, {});
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/cuda/commands.h"
#include "tests/cuda/fiber.h"
#include "tests/cuda/host_context.h"

namespace metronome {

using cuda::HostContext;

/// In which order blocks, and the threads of a block that could run, do run. Forward: the first
/// warp as far as it can, then the next; reverse: the last lane of the last warp first.
struct RunOrder {
  enum class Kind : std::uint8_t { forward, reverse, random };
  Kind kind = Kind::forward;
  std::uint64_t seed = 0;  ///< of the random order
};

inline std::string to_string(const RunOrder& order) {
  switch (order.kind) {
    case RunOrder::Kind::forward:
      return "forward";
    case RunOrder::Kind::reverse:
      return "reverse";
    case RunOrder::Kind::random:
      break;
  }
  return fmt::format("random {}", order.seed);
}

/// A kernel that breaks a rule: "softmax, block 3: thread 5 ...".
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class BlockExecutor final : cuda::HostBlock {
 public:
  using Body = std::function<void(HostContext&)>;

  BlockExecutor() = default;
  BlockExecutor(const BlockExecutor&) = delete;
  BlockExecutor& operator=(const BlockExecutor&) = delete;

  /// Runs the body for every thread of every block. Throws KernelError where it breaks a rule, and
  /// InternalError for a shape out of bounds; what the body throws comes through.
  void run(std::string_view kernel, const cuda::KernelShape& shape, const Body& body,
           const RunOrder& order) {
    check_shape(kernel, shape);
    kernel_ = kernel;
    shape_ = shape;
    body_ = &body;
    order_ = order;
    random_.seed(order.seed);
    std::vector<int> blocks;
    if (order.kind == RunOrder::Kind::random) {
      blocks.resize(shape.blocks);
      std::iota(blocks.begin(), blocks.end(), 0);
      std::shuffle(blocks.begin(), blocks.end(), random_);
    }
    for (Index i = 0; i < shape.blocks; ++i) {
      switch (order.kind) {
        case RunOrder::Kind::forward:
          run_block(static_cast<int>(i));
          break;
        case RunOrder::Kind::reverse:
          run_block(static_cast<int>(shape.blocks - 1 - i));
          break;
        case RunOrder::Kind::random:
          run_block(blocks[i]);
          break;
      }
    }
  }

 private:
  using Index = cuda::Index;
  using Meeting = cuda::Meeting;
  static constexpr int kWarp = cuda::kWarp;
  static constexpr std::size_t kGuard = 256;  // bytes on either side of shared memory
  static constexpr unsigned char kMark = 0x5A;
  static constexpr unsigned char kGarbage = 0xFF;  // what shared memory begins with: NaN

  struct Thread {
    HostContext context;
    Fiber* fiber = nullptr;  // null before it begins
    bool at_barrier = false;
    bool returned = false;
  };
  struct Warp {
    int arrived = 0;   // lanes at the exchange that is under way
    int first = 0;     // the thread that came to it first
    Meeting exchange;  // as that thread calls it
    int phase = 0;
    bool left = false;  // by a lane, which has returned or is at the barrier
    // The lanes' values of this exchange and of the one before, which slower lanes still read.
    std::array<std::array<std::uint64_t, cuda::kWarp>, 2> lanes = {};
  };

  // --- One block ---

  void run_block(int block) {
    block_ = block;
    const auto bytes = static_cast<std::size_t>(shape_.shared_bytes);
    begin_shared(bytes);
    threads_.assign(shape_.threads, {});
    warps_.assign(shape_.threads / kWarp, {});
    at_barrier_ = 0;
    returned_ = std::nullopt;
    for (int t = 0; t < shape_.threads; ++t) {
      threads_[t].context = HostContext(this, t, shape_.threads, block,
                                        static_cast<int>(shape_.blocks), shared_.data() + kGuard);
    }
    ready_.clear();
    make_ready(0, shape_.threads);

    handed_ = take_ready();
    main_.switch_to(free_fiber());
    if (failure_) {
      // Fibers that wait in the middle of the kernel cannot be used again.
      free_.clear();
      fibers_.clear();
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    check_shared(bytes);
  }

  void begin_shared(std::size_t bytes) {
    shared_.assign(bytes + 2 * kGuard, kMark);
    std::memset(shared_.data() + kGuard, kGarbage, bytes);
  }

  void check_shared(std::size_t bytes) const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (shared_[i] == kMark && shared_[kGuard + bytes + i] == kMark) continue;
      throw KernelError(fmt::format("{}, block {}: writes outside of its {} bytes of shared memory",
                                    kernel_, block_, bytes));
    }
  }

  // --- Who runs next ---

  /// Threads [begin, end) can run; they are taken from the back.
  void make_ready(int begin, int end) {
    if (order_.kind == RunOrder::Kind::reverse) {
      for (int t = begin; t < end; ++t) ready_.push_back(t);
    } else {
      for (int t = end - 1; t >= begin; --t) ready_.push_back(t);
    }
  }

  /// The thread to run, or -1: all have returned, or the block has failed.
  int take_ready() {
    if (handed_ >= 0) return std::exchange(handed_, -1);
    if (failure_ || ready_.empty()) return -1;
    if (order_.kind == RunOrder::Kind::random) {
      // 31 random bits, scaled without a division.
      std::swap(ready_[random_() * ready_.size() >> 31], ready_.back());
    }
    const int next = ready_.back();
    ready_.pop_back();
    return next;
  }

  Fiber& free_fiber() {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(
          [](void* self) { static_cast<BlockExecutor*>(self)->fiber_body(); }, this));
      free_.push_back(fibers_.back().get());
    }
    begins_ = free_.back();
    free_.pop_back();
    return *begins_;
  }

  /// Threads that have not begun run here one after the other: one that meets nobody costs no
  /// switch.
  void fiber_body() {
    Fiber* const self = begins_;
    for (;;) {
      const int next = take_ready();
      if (next < 0) {
        free_.push_back(self);
        self->switch_to(main_);
      } else if (threads_[next].fiber != nullptr) {
        free_.push_back(self);
        self->switch_to(*threads_[next].fiber);
      } else {
        threads_[next].fiber = self;
        run_thread(next);
      }
    }
  }

  void run_thread(int thread) {
    try {
      (*body_)(threads_[thread].context);
      returns(thread);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  /// Lets others run until this thread can.
  void stop(int thread) {
    const int next = take_ready();
    if (next == thread) return;
    Fiber& self = *threads_[thread].fiber;
    if (next < 0) return self.switch_to(main_);
    if (threads_[next].fiber != nullptr) return self.switch_to(*threads_[next].fiber);
    handed_ = next;
    self.switch_to(free_fiber());
  }

  // --- Where threads meet ---

  void barrier(int thread, const Meeting& meeting) override {
    Warp& warp = warps_[thread / kWarp];
    if (warp.arrived > 0) refuse_apart(thread, meeting, warp.first, warp.exchange);
    if (returned_) refuse_returned(*returned_, thread, meeting);
    if (at_barrier_ == 0) {
      first_at_barrier_ = thread;
      barrier_ = meeting;
    } else if (meeting.line != barrier_.line) {
      refuse_apart(thread, meeting, first_at_barrier_, barrier_);
    }
    threads_[thread].at_barrier = warp.left = true;
    if (++at_barrier_ == shape_.threads) {
      at_barrier_ = 0;
      for (Thread& t : threads_) t.at_barrier = false;
      for (Warp& w : warps_) w.left = false;
      make_ready(0, shape_.threads);
    }
    stop(thread);
  }

  const std::uint64_t* exchange(int thread, const Meeting& meeting, std::uint64_t bits) override {
    const int begin = thread / kWarp * kWarp;
    Warp& warp = warps_[thread / kWarp];
    if (warp.arrived == 0) {
      warp.first = thread;
      warp.exchange = meeting;
      for (int t = begin; warp.left && t < begin + kWarp; ++t) {
        if (threads_[t].returned) refuse_returned(t, thread, meeting);
        if (threads_[t].at_barrier) refuse_apart(thread, meeting, t, barrier_);
      }
    } else if (const Meeting& first = warp.exchange;
               first.kind != meeting.kind || first.bytes != meeting.bytes ||
               first.operand != meeting.operand || first.line != meeting.line) {
      refuse_apart(thread, meeting, warp.first, first);
    }
    const std::uint64_t* lanes = warp.lanes[warp.phase].data();
    warp.lanes[warp.phase][thread - begin] = bits;
    if (++warp.arrived == kWarp) {
      warp.arrived = 0;
      warp.phase ^= 1;
      make_ready(begin, begin + kWarp);
    }
    stop(thread);
    return lanes;
  }

  void returns(int thread) {
    threads_[thread].returned = true;
    if (!returned_) returned_ = thread;
    Warp& warp = warps_[thread / kWarp];
    warp.left = true;
    if (warp.arrived > 0) refuse_returned(thread, warp.first, warp.exchange);
    if (at_barrier_ > 0) refuse_returned(thread, first_at_barrier_, barrier_);
  }

  // --- What is said of a broken rule ---

  static std::string to_string(const Meeting& meeting) {
    constexpr const char* kNames[] = {"the barrier", "shuffle_xor", "shuffle_down", "shuffle",
                                      "ballot"};
    const std::string_view file = meeting.file;
    std::string text = kNames[static_cast<int>(meeting.kind)];
    if (meeting.kind == Meeting::Kind::shuffle_xor || meeting.kind == Meeting::Kind::shuffle_down) {
      text += fmt::format(" by {}", meeting.operand);
    }
    return fmt::format("{} of {}:{}", text, file.substr(file.rfind('/') + 1), meeting.line);
  }

  [[noreturn]] void refuse(int thread, const char* what) override {
    throw KernelError(fmt::format("{}, block {}: thread {}: {}", kernel_, block_, thread, what));
  }
  [[noreturn]] void refuse_apart(int thread, const Meeting& meeting, int other,
                                 const Meeting& where) const {
    throw KernelError(fmt::format("{}, block {}: thread {} is at {} where thread {} is at {}",
                                  kernel_, block_, thread, to_string(meeting), other,
                                  to_string(where)));
  }
  [[noreturn]] void refuse_returned(int returned, int waiting, const Meeting& meeting) const {
    throw KernelError(fmt::format("{}, block {}: thread {} has returned where thread {} is at {}",
                                  kernel_, block_, returned, waiting, to_string(meeting)));
  }

  std::string_view kernel_;
  cuda::KernelShape shape_;
  const Body* body_ = nullptr;
  RunOrder order_;
  std::minstd_rand random_;  // it is asked millions of times

  int block_ = 0;
  std::vector<unsigned char> shared_;  // between two guards; 16-byte aligned as malloc does
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<int> ready_;  // the next one last
  int handed_ = -1;         // taken already, for the fiber that is switched to
  int at_barrier_ = 0;
  int first_at_barrier_ = 0;
  Meeting barrier_;              // as that thread calls it
  std::optional<int> returned_;  // the first thread that has
  std::exception_ptr failure_;

  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* begins_ = nullptr;  // the fiber that is switched to
};

}  // namespace metronome
