#include "tests/cuda/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

extern "C" {
void metronome_switch_stacks(void** old_top, void* new_top);
void metronome_begin_fiber();
}

// What a function must leave as it found it (System V ABI, x86-64) lies on the stack that waits.
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

constexpr std::size_t kStackBytes = 256 << 10;  // a kernel's body and, in tests, what it calls
constexpr std::size_t kGuardBytes = 4096;       // a page

}  // namespace

Fiber::Fiber(void (*body)(void*), void* argument) {
  memory_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  // Too deep a stack must end the program, not spoil its neighbour's.
  mprotect(memory_, kGuardBytes, PROT_NONE);

  // As if it had been switched away from just before `metronome_begin_fiber`, which finds the stack
  // above these seven words: at a multiple of 16, as calls demand.
  auto* end = reinterpret_cast<std::uintptr_t*>(static_cast<std::byte*>(memory_) + kGuardBytes +
                                                kStackBytes);
  std::uintptr_t* top = end - 9;
  top[2] = reinterpret_cast<std::uintptr_t>(body);      // r13
  top[3] = reinterpret_cast<std::uintptr_t>(argument);  // r12
  top[6] = reinterpret_cast<std::uintptr_t>(&metronome_begin_fiber);
  top_ = top;
}

Fiber::~Fiber() {
  if (memory_ != nullptr) munmap(memory_, kGuardBytes + kStackBytes);
}

void Fiber::switch_to(Fiber& next) { metronome_switch_stacks(&top_, next.top_); }

}  // namespace metronome
