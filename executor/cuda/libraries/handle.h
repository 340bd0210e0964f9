// Owners of what CUDA hands out.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string_view>
#include <type_traits>

namespace metronome::executor::libraries {

/// Owns a handle, which in CUDA's C interface is always a pointer.
template <class T, class Destroy>
using Handle = std::unique_ptr<std::remove_pointer_t<T>, Destroy>;

/// Destroys by a function that is linked. It ignores the returned status: a destructor could do
/// nothing about an error, and a device in error refuses every call.
template <auto destroy>
struct Destroyer {
  template <class T>
  void operator()(T* handle) const noexcept {
    static_cast<void>(destroy(handle));
  }
};

using DeviceMemory = Handle<void*, Destroyer<cudaFree>>;
using HostMemory = Handle<void*, Destroyer<cudaFreeHost>>;
using Stream = Handle<cudaStream_t, Destroyer<cudaStreamDestroy>>;
using Event = Handle<cudaEvent_t, Destroyer<cudaEventDestroy>>;
using RecordedGraph = Handle<cudaGraph_t, Destroyer<cudaGraphDestroy>>;
using GraphExec = Handle<cudaGraphExec_t, Destroyer<cudaGraphExecDestroy>>;
using Module = Handle<cudaLibrary_t, Destroyer<cudaLibraryUnload>>;

/// Throws where the CUDA runtime refused: InternalError where the call broke a rule of capture,
/// RunError "CUDA cannot DOING: <the runtime's reason>" for everything else; LostDevice where no
/// later call of this process will succeed.
void check(cudaError_t status, std::string_view doing);

}  // namespace metronome::executor::libraries
