// A second stack on the same thread of the system.
#pragma once

#include <cstddef>

namespace metronome {

/// Begins `body(argument)` when it is first switched to; the body never returns. A fiber that is
/// destroyed while it waits leaves what lies on its stack as it is. The address sanitizer follows.
///
/// `swapcontext` would do, but asks the system for its signal mask at each switch, which takes
/// fifteen times as long, and kernels with shuffles switch millions of times.
class Fiber {
 public:
  /// The stack that the program came with.
  Fiber() = default;
  Fiber(void (*body)(void*), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Stops here, which must run on this fiber, and goes on where `next` stopped.
  void switch_to(Fiber& next);

 private:
  [[noreturn]] static void begin(void* self);
  void arrive();

  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* top_ = nullptr;     // of the stack, while it waits
  void* memory_ = nullptr;  // null for the program's own

  // Only the address sanitizer needs these: it must know on which stack the program is.
  const void* stack_ = nullptr;  // its lowest byte; the program's own is known once it was left
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;  // the sanitizer's, while this fiber waits
  Fiber* from_ = nullptr;       // which one was left for this one
};

}  // namespace metronome
