#include "tests/cuda/fiber.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <system_error>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" {
void metronome_switch_stacks(void** old_top, void* new_top);
void metronome_begin_fiber();
}

// The waiting stack holds what a function must leave as it found it (System V ABI, x86-64).
asm(R"(
.text
.globl metronome_switch_stacks
.type metronome_switch_stacks, @function
metronome_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size metronome_switch_stacks, . - metronome_switch_stacks

.globl metronome_begin_fiber
.type metronome_begin_fiber, @function
metronome_begin_fiber:
  movq %r12, %rdi
  callq *%r13
  ud2
.size metronome_begin_fiber, . - metronome_begin_fiber
)");

namespace metronome {
namespace {

// These calls tell the address sanitizer of stacks; without it, they do nothing.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kRoom = 4;  // it surrounds each variable

void tell_of_leaving(void** fake_stack, const void* next_stack, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, next_stack, bytes);
}
void tell_of_arriving(void* fake_stack, const void** left_stack, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, left_stack, bytes);
}
// A call that waits on a stack never ends, so its variables' surroundings are still marked.
void tell_of_freeing(const void* stack, std::size_t bytes) {
  __asan_unpoison_memory_region(stack, bytes);
}
#else
constexpr std::size_t kRoom = 1;

void tell_of_leaving(void**, const void*, std::size_t) {}
void tell_of_arriving(void*, const void**, std::size_t*) {}
void tell_of_freeing(const void*, std::size_t) {}
#endif

// A kernel's body and, in tests, what it calls.
constexpr std::size_t kStackBytes = kRoom * (256 << 10);
constexpr std::size_t kGuardBytes = 4096;  // a page
// Stacks end at other places of a page, or the first-level cache would hold only a few of them.
constexpr std::size_t kApart = 7 * 64;

}  // namespace

Fiber::Fiber(void (*body)(void*), void* argument) : body_(body), argument_(argument) {
  memory_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  // Too deep a stack must end the program, not spoil its neighbour's.
  mprotect(memory_, kGuardBytes, PROT_NONE);

  // As if it had been switched away from just before `metronome_begin_fiber`, which finds the stack
  // above these seven words: at a multiple of 16, as calls demand.
  static std::atomic<std::size_t> count = 0;
  const std::size_t apart = count++ * kApart % kGuardBytes;
  auto* end = reinterpret_cast<std::uintptr_t*>(static_cast<std::byte*>(memory_) + kGuardBytes +
                                                kStackBytes - apart);
  std::uintptr_t* top = end - 9;
  top[2] = reinterpret_cast<std::uintptr_t>(&Fiber::begin);  // r13
  top[3] = reinterpret_cast<std::uintptr_t>(this);           // r12
  top[6] = reinterpret_cast<std::uintptr_t>(&metronome_begin_fiber);
  top_ = top;
  stack_ = static_cast<std::byte*>(memory_) + kGuardBytes;
  stack_bytes_ = kStackBytes;
}

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
  tell_of_freeing(stack_, stack_bytes_);
  munmap(memory_, kGuardBytes + kStackBytes);
}

void Fiber::begin(void* self) {
  auto* const fiber = static_cast<Fiber*>(self);
  fiber->arrive();
  fiber->body_(fiber->argument_);
  std::terminate();  // it has nowhere to return to
}

void Fiber::switch_to(Fiber& next) {
  next.from_ = this;
  tell_of_leaving(&fake_stack_, next.stack_, next.stack_bytes_);
  metronome_switch_stacks(&top_, next.top_);
  arrive();
}

void Fiber::arrive() { tell_of_arriving(fake_stack_, &from_->stack_, &from_->stack_bytes_); }

}  // namespace metronome
