// Mistakes of Metronome's own, told where exceptions may be off: kernels are also compiled so.
#pragma once

namespace metronome {

/// Throws InternalError. A call that a kernel is bound by, which no rule of an op leads to.
[[noreturn]] void own_mistake(const char* what);

/// Throws std::bad_alloc.
[[noreturn]] void no_memory();

}  // namespace metronome
