// The bytes that libtorch's allocators hold.
#pragma once

#include <cstddef>
#include <functional>

namespace metronome::benchmarks {

/// The most bytes that tensors made during the call held at one moment, on this thread and on those
/// that libtorch's autograd starts for it. Tensors that lived before the call do not count, and the
/// call should not free them: libtorch warns if it does.
std::size_t peak_tensor_bytes(const std::function<void()>& call);

/// Bytes of a CUDA device that libtorch's caching allocator has given out, while libtorch's CUDA
/// half is loaded: now, and the most at one moment of a call.
std::size_t allocated_on_device(int device);
std::size_t peak_on_device(int device, const std::function<void()>& call);

}  // namespace metronome::benchmarks
