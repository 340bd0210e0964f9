// The memory that libtorch's allocators hold.
#pragma once

#include <cstddef>
#include <functional>

namespace metronome::benchmarks {

/// From now on the C library keeps what is freed, in place of giving large blocks back: eager makes
/// its tensors anew in each step, and each would be new pages. That is its best setting; planned
/// steps allocate nothing. For a process that compares, once, at its beginning.
void keep_freed_memory();

/// The most bytes that tensors made during the call held at one moment, on this thread and on those
/// that libtorch's autograd starts for it. Tensors that lived before the call do not count, and the
/// call should not free them: libtorch warns if it does.
std::size_t peak_tensor_bytes(const std::function<void()>& call);

/// Bytes of a CUDA device that libtorch's caching allocator has given out, while libtorch's CUDA
/// half is loaded: now, and the most at one moment of a call.
std::size_t allocated_on_device(int device);
std::size_t peak_on_device(int device, const std::function<void()>& call);

}  // namespace metronome::benchmarks
