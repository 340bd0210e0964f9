// What libtorch's allocators hold.
#pragma once

#include <cstddef>
#include <functional>

namespace metronome::benchmarks {

/// The most bytes that tensors made during the call held at one moment, on this thread and on those
/// that libtorch's autograd starts for it. What lived before the call does not count, and should
/// not be freed by it: libtorch warns where it is.
std::size_t peak_tensor_bytes(const std::function<void()>& call);

/// Bytes of a CUDA device that libtorch's caching allocator has given out, while libtorch's CUDA
/// half is loaded: now, and the most at one moment of a call.
std::size_t allocated_on_device(int device);
std::size_t peak_on_device(int device, const std::function<void()>& call);

}  // namespace metronome::benchmarks
