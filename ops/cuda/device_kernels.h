// The kernels that were compiled ahead for devices, found by their type. Plain C++: what names them
// needs no CUDA.
#pragma once

#include <cstddef>
#include <map>
#include <typeindex>

namespace metronome {

/// Kernels by type, each with the address that the CUDA runtime knows it by (cudaFuncGetAttributes,
/// cudaLaunchKernelExC). Its one parameter is the kernel's struct.
class DeviceKernels {
 public:
  /// Null for a kernel that was not compiled.
  const void* find(std::type_index kernel) const {
    const auto found = entries_.find(kernel);
    return found == entries_.end() ? nullptr : found->second;
  }
  std::size_t size() const { return entries_.size(); }
  void add(std::type_index kernel, const void* entry) { entries_[kernel] = entry; }

 private:
  std::map<std::type_index, const void*> entries_;
};

/// The kernels of all ops; none where this build has no CUDA toolkit.
const DeviceKernels& device_kernels();

}  // namespace metronome
