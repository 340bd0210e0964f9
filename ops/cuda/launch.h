// How a CUDA rule is asked: the launch interface that the executor sees.
//
//   candidates(op, query)   what could run this node, and the scratch bytes each needs
//   record(op, launch)      the chosen one over planned memory: adds commands to a list
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/cuda/commands.h"
#include "ops/cuda/library.h"
#include "ops/rules/by_element.h"
#include "ops/rules/candidate.h"

namespace metronome {

/// The properties of a device that are known when kernels are chosen.
struct DeviceProperties {
  std::string name = "no device";
  int major = 9;  ///< compute capability
  int minor = 0;
  int multiprocessors = 132;
  std::size_t memory_bytes = 0;
  std::string library_versions;  ///< "CUDA 13.0, cuBLASLt 13.1.0"
};

/// The facts that a choice is made from.
struct CudaQuery {
  std::span<const Type> inputs;
  std::span<const Type> outputs;
  const DeviceProperties& device;
  const Libraries& libraries;
  bool tf32 = false;
  bool channels_last = false;  ///< as of a launch
};

/// Device memory for what a rule knows when it is bound (tables of pointers, constants).
class ConstantMemory {
 public:
  virtual ~ConstantMemory() = default;
  /// A device address, 256-byte aligned, that holds these bytes for the life of the plan.
  virtual const void* keep(std::span<const std::byte> bytes) = 0;
};

/// The types, addresses and choice that a rule is bound to. Addresses are of the device and fixed
/// for the life of the plan; a saved output that nothing reads is null. Tensors are dense,
/// row-major; values begin at multiples of 256 bytes, views at multiples of their element.
struct CudaLaunch {
  std::span<const Type> inputs;
  std::span<const Type> outputs;
  std::span<void* const> input_data;
  std::span<void* const> output_data;
  void* scratch = nullptr;
  Candidate choice;
  const DeviceProperties& device;
  ConstantMemory& constants;
  CommandList& commands;
  cuda::Watch watch = {};
  cuda::Lookups lookups = {};
  bool tf32 = false;
  /// True where tensors of three dimensions or more, [N, C, spatial...] by their types, are stored
  /// as [N, spatial..., C]; asked of ops with `ChannelsLastRule` alone.
  bool channels_last = false;

  template <class T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(input_data[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return static_cast<T*>(output_data[i]);
  }
};

/// The channels of an image [N, C, spatial...] that lie side by side: all where they are stored
/// last, else 1.
inline std::int64_t inner_channels(const CudaLaunch& launch, const Type& image) {
  return launch.channels_last ? image.shape[1] : 1;
}

/// Calls f with a null pointer of the type that kernels use for an element: float, double, int,
/// long long, bool, BFloat16, Float16.
template <class F>
void with_type(Element element, F f) {
  with_element(element, [&](auto x) {
    using X = decltype(x);
    using T = std::conditional_t<std::is_same_v<X, std::int64_t>, long long, X>;
    f(static_cast<T*>(nullptr));
  });
}

/// A grid of `threads` threads a block over `count` elements, `each` a thread, at most
/// `waves` full waves of the device's 2048 threads a multiprocessor: kernels stride over the rest.
KernelShape spread(std::int64_t count, int threads, const DeviceProperties& device, int each = 1,
                   int waves = 4);

/// f(null pointer of the index's type), as device kernels name it.
template <class F>
void with_index(Element element, F f) {
  if (element == i32) return f(static_cast<int*>(nullptr));
  f(static_cast<long long*>(nullptr));
}

}  // namespace metronome
