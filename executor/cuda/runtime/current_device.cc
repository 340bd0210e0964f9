// "CUDA Driver API" 13.0, Context Management: cuCtxGetCurrent and cuCtxSetCurrent. The runtime's
// cudaSetDevice would make a context on the device that it goes back to, if there is none yet.
#include "executor/cuda/runtime/current_device.h"

#include "executor/cuda/libraries/handle.h"

namespace metronome::executor::runtime {
namespace {

constexpr int kSuccess = 0;  // CUDA_SUCCESS

/// The driver's functions; null where it has none of these names.
struct ContextCalls {
  int (*get_current)(void** context) = nullptr;
  int (*set_current)(void* context) = nullptr;

  void* current() const {
    void* context = nullptr;
    return get_current != nullptr && get_current(&context) == kSuccess ? context : nullptr;
  }
};

template <class Function>
void find(const char* name, Function*& function) {
  constexpr unsigned kVersion = 4000;  // the first that has them
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  if (status == cudaSuccess && result == cudaDriverEntryPointSuccess) {
    function = reinterpret_cast<Function*>(found);
  } else {
    static_cast<void>(cudaGetLastError());
  }
}

const ContextCalls& context_calls() {
  static const ContextCalls calls = [] {
    ContextCalls found;
    find("cuCtxGetCurrent", found.get_current);
    find("cuCtxSetCurrent", found.set_current);
    return found;
  }();
  return calls;
}

}  // namespace

CurrentDevice::CurrentDevice(int index) : before_(context_calls().current()) {
  libraries::check(change_to(index), "use the device");
}

CurrentDevice::CurrentDevice(int index, std::nothrow_t) noexcept
    : before_(context_calls().current()) {
  static_cast<void>(change_to(index));
}

cudaError_t CurrentDevice::change_to(int index) noexcept {
  // A thread without a context would get that of its device with its first call: the same stays.
  int device = index;
  if (before_ == nullptr) static_cast<void>(cudaGetDevice(&device));
  const cudaError_t status = cudaSetDevice(index);
  changed_ = before_ == nullptr ? device != index : context_calls().current() != before_;
  return status;
}

CurrentDevice::~CurrentDevice() {
  if (changed_ && context_calls().set_current != nullptr) {
    static_cast<void>(context_calls().set_current(before_));
  }
}

}  // namespace metronome::executor::runtime
