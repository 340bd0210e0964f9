// A thread's current device, borrowed for a call.
#pragma once

#include <cuda_runtime_api.h>

#include <new>

namespace metronome::executor::runtime {

/// Makes a device current on this thread, and puts back what was current when it goes: the caller
/// may work with another device, and libtorch allocates on the current one. It goes on the thread
/// that made it. A driver's call puts back the context, which makes none where the thread had none.
class CurrentDevice {
 public:
  /// Throws RunError where the device is refused.
  explicit CurrentDevice(int index);
  /// Leaves the device that is current, where the other is refused.
  CurrentDevice(int index, std::nothrow_t) noexcept;
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  cudaError_t change_to(int index) noexcept;

  void* before_;  // a context
  bool changed_ = false;
};

}  // namespace metronome::executor::runtime
