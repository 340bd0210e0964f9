// What libtorch's allocator holds.
#pragma once

#include <cstddef>
#include <functional>

namespace metronome::benchmarks {

/// The most bytes that tensors made during the call held at one moment, on this thread and on those
/// that libtorch's autograd starts for it. What lived before the call does not count, and should
/// not be freed by it: libtorch warns where it is.
std::size_t peak_tensor_bytes(const std::function<void()>& call);

}  // namespace metronome::benchmarks
