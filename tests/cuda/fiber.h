// A second stack on the same thread of the system.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <system_error>

namespace metronome {

/// Begins `body(argument)` at its first resumption; the body never returns. A fiber that is
/// destroyed while it waits leaves what lies on its stack as it is.
class Fiber {
 public:
  /// The stack that the program came with.
  Fiber() = default;

  Fiber(void (*body)(void*), void* argument) : body_(body), argument_(argument) {
    void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    memory_ = memory;
    // Too deep a stack must end the program, not spoil its neighbour's.
    mprotect(memory, kGuardBytes, PROT_NONE);
    getcontext(&context_);
    context_.uc_stack.ss_sp = static_cast<std::byte*>(memory) + kGuardBytes;
    context_.uc_stack.ss_size = kStackBytes;
    const auto self = reinterpret_cast<std::uintptr_t>(this);  // makecontext passes on ints only
    makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::begin), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  ~Fiber() {
    if (memory_ != nullptr) munmap(memory_, kStackBytes + kGuardBytes);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Stops here, which must run on this fiber, and goes on where `next` stopped.
  void switch_to(Fiber& next) { swapcontext(&context_, &next.context_); }

 private:
  static constexpr std::size_t kStackBytes = 256 << 10;
  static constexpr std::size_t kGuardBytes = 4096;

  static void begin(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
    self->body_(self->argument_);
  }

  ucontext_t context_ = {};
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace metronome
