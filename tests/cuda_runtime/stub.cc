#ifndef METRONOME_NO_CUDA

#include "tests/cuda_runtime/stub.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "tests/cuda_runtime/stub_state.h"

namespace metronome::stub {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;
thread_local bool has_context = false;

/// Whether a thread may not do what might break a capture: in a thread-local or global one of its
/// own, or while another thread is in a global one.
bool held_back(const State& all) {
  return std::ranges::any_of(all.streams, [](const auto& entry) {
    const CUstream_st& s = *entry.second;
    if (!captures(s) || s.mode == cudaStreamCaptureModeRelaxed) return false;
    return s.mode == cudaStreamCaptureModeGlobal || s.by == std::this_thread::get_id();
  });
}

/// Whether it lies in memory of the device.
bool on_device(const State& all, const void* at) {
  return std::ranges::any_of(all.memory, [at](const auto& held) {
    const auto* begin = static_cast<const std::byte*>(held.first);
    return at >= begin && at < begin + held.second;
  });
}

}  // namespace

State& state() {
  static State all;
  return all;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void invalidate(CUstream_st& stream) {
  if (captures(stream)) stream.status = cudaStreamCaptureStatusInvalidated;
}

cudaError_t unsafe(State& all) {
  if (!held_back(all)) return cudaSuccess;
  for (auto& [handle, stream] : all.streams) {
    if (stream->mode != cudaStreamCaptureModeRelaxed) invalidate(*stream);
  }
  return cudaErrorStreamCaptureUnsupported;
}

CUstream_st* found(State& all, cudaStream_t stream) {
  const auto at = all.streams.find(stream);
  return at == all.streams.end() ? nullptr : at->second.get();
}

bool known(const State& all, cudaGraph_t graph) {
  if (graph == nullptr) return false;
  while (graph->around != nullptr) graph = graph->around;
  return all.graphs.contains(graph);
}

cudaGraph_t make_graph(State& all) {
  auto made = std::make_unique<CUgraph_st>();
  const cudaGraph_t handle = made.get();
  all.graphs.emplace(handle, std::move(made));
  return handle;
}

cudaError_t add(State& all, cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                std::size_t count, cudaGraphNodeType type) {
  if (made == nullptr || !known(all, graph)) return cudaErrorInvalidValue;
  auto node = std::make_unique<CUgraphNode_st>();
  node->type = type;
  for (std::size_t i = 0; i < count; ++i) {
    const bool own =
        std::ranges::any_of(graph->nodes, [&](const auto& n) { return n.get() == after[i]; });
    const bool twice = std::ranges::find(node->after, after[i]) != node->after.end();
    if (!own || twice) return cudaErrorInvalidValue;
    node->after.push_back(after[i]);
  }
  *made = node.get();
  graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

cudaError_t outside_capture(State& all, cudaStream_t stream) {
  if (stream == nullptr) return cudaSuccess;  // the default stream, which no capture is on
  CUstream_st* const s = found(all, stream);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (!captures(*s)) return cudaSuccess;
  invalidate(*s);
  return cudaErrorStreamCaptureUnsupported;
}

Living living() {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  const auto count = [](const auto& map) { return static_cast<int>(map.size()); };
  return {count(all.memory),    count(all.host_memory), count(all.streams),    count(all.events),
          count(all.libraries), count(all.graphs),      count(all.executables)};
}

void reset() {
  if (living() != Living{}) throw std::logic_error("something lives");
  forget();
}

void forget() {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  all.streams.clear();
  all.graphs.clear();
  all.calls.clear();
  all.failing = -1;
  all.refused.clear();
  all.handles.clear();
  all.last_graph.clear();
  all.watch = {};
  last_error = cudaSuccess;
}

int device_in_use() { return has_context ? current_device : -1; }

const std::vector<std::string>& calls() { return state().calls; }
void note(const std::string& call) {
  const std::scoped_lock lock(state().mutex);
  state().calls.push_back(call);
}
void fail(int number) { state().failing = number; }
void fail(const std::string& name, cudaError_t error) { state().refused[name] = error; }

void watch(Watch watch) {
  const std::scoped_lock lock(state().mutex);
  state().watch = std::move(watch);
}

bool is_held_back() {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  return held_back(all);
}

std::string last_graph() { return state().last_graph; }

}  // namespace metronome::stub

using namespace metronome::stub;

extern "C" {

// --- Errors ---

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheStub"; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorUnknown:
      return "unknown error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "another error";
  }
}

// --- The device ---

cudaError_t cudaInitDevice(int, unsigned, unsigned) {
  return call("cudaInitDevice", [](State&) { return cudaSuccess; });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](State&) {
    current_device = device;
    has_context = true;
    return cudaSuccess;
  });
}
// The driver's: contexts are the numbers of their devices, from 1.
int cuCtxGetCurrent(void** context) {
  *context = has_context ? reinterpret_cast<void*>(static_cast<std::intptr_t>(current_device + 1))
                         : nullptr;
  return 0;
}
int cuCtxSetCurrent(void* context) {
  has_context = context != nullptr;
  current_device = has_context ? static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1 : 0;
  return 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *found = std::string_view(name) == "cuCtxGetCurrent" ? reinterpret_cast<void*>(&cuCtxGetCurrent)
                                                       : reinterpret_cast<void*>(&cuCtxSetCurrent);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&](State&) {
    *device = current_device;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [](State& all) {
    for (auto& [handle, stream] : all.streams) invalidate(*stream);
    return cudaSuccess;
  });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", [&](State&) {
    *version = 13000;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](State&) {
    *properties = {};
    std::strcpy(properties->name, "a stub");
    properties->uuid.bytes[0] = static_cast<char>(device + 1);
    properties->major = 9;
    properties->multiProcessorCount = 132;
    properties->totalGlobalMem = std::size_t{1} << 36;
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&](State& all) {
    constexpr std::size_t kPage = 2 << 20;
    std::size_t bytes = 0;
    for (const auto& [at, held] : all.memory) bytes += held;
    *total = std::size_t{1} << 36;
    *free = *total - (bytes + kPage - 1) / kPage * kPage - all.executables.size() * kPage;
    return cudaSuccess;
  });
}

// --- Memory ---

cudaError_t cudaMalloc(void** made, std::size_t bytes) {
  return call("cudaMalloc", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    bytes = (bytes + 255) / 256 * 256;
    *made = std::memset(std::aligned_alloc(256, bytes), 0, bytes);
    all.memory[*made] = bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaFree(void* memory) {
  const auto work = [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    if (all.memory.erase(memory) == 0) return cudaErrorInvalidValue;
    std::free(memory);
    return cudaSuccess;
  };
  return call("cudaFree", work, true);
}
cudaError_t cudaHostAlloc(void** made, std::size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    *made = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    all.host_memory[*made] = bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* memory) {
  const auto work = [&](State& all) {
    if (all.host_memory.erase(memory) == 0) return cudaErrorInvalidValue;
    std::free(memory);
    return cudaSuccess;
  };
  return call("cudaFreeHost", work, true);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* memory) {
  return call("cudaPointerGetAttributes", [&](State& all) {
    const auto* const at = static_cast<const std::byte*>(memory);
    const auto lies_in = [at](const auto& block) {
      const auto* const begin = static_cast<const std::byte*>(block.first);
      return begin <= at && at < begin + block.second;
    };
    *found = {};
    found->type = std::ranges::any_of(all.host_memory, lies_in) ? cudaMemoryTypeHost
                  : std::ranges::any_of(all.memory, lies_in)    ? cudaMemoryTypeDevice
                                                                : cudaMemoryTypeUnregistered;
    found->device = current_device;
    return cudaSuccess;
  });
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return call("cudaHostGetDevicePointer", [&](State&) {
    *device = host;
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&](State& all) {
    return enqueue(all, stream, cudaGraphNodeTypeMemcpy, [&] {
      if (!on_device(all, to) || !on_device(all, from)) std::memcpy(to, from, bytes);
      return cudaSuccess;
    });
  });
}
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&](State& all) {
    return enqueue(all, stream, cudaGraphNodeTypeMemset, [] { return cudaSuccess; });
  });
}

// --- Streams and events ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&](State& all) {
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    auto stream = std::make_unique<CUstream_st>();
    *made = stream.get();
    all.streams.emplace(*made, std::move(stream));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto work = [&](State& all) {
    return all.streams.erase(stream) == 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
  };
  return call("cudaStreamDestroy", work, true);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&](State& all) { return outside_capture(all, stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
  return call("cudaStreamWaitEvent", [&](State& all) { return outside_capture(all, stream); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](State& all) {
    auto event = std::make_unique<CUevent_st>();
    event->timed = flags == cudaEventDefault;
    *made = event.get();
    all.events.emplace(*made, std::move(event));
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto work = [&](State& all) {
    return all.events.erase(event) == 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
  };
  return call("cudaEventDestroy", work, true);
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) {
  return call("cudaEventRecord", [&](State& all) { return outside_capture(all, stream); });
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return call("cudaEventQuery", [&](State& all) { return unsafe(all); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return call("cudaEventSynchronize", [&](State& all) { return unsafe(all); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&](State&) {
    if (!begin->timed || !end->timed) return cudaErrorInvalidResourceHandle;
    *ms = 1;
    return cudaSuccess;
  });
}

// --- Captures ---

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](State& all) {
    CUstream_st* const s = found(all, stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (captures(*s)) return cudaErrorIllegalState;
    *s = {cudaStreamCaptureStatusActive, mode, std::this_thread::get_id(), make_graph(all), {}};
    return cudaSuccess;
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&](State& all) {
    *status = cudaStreamCaptureStatusNone;
    if (stream == nullptr) return cudaSuccess;
    CUstream_st* const s = found(all, stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    *status = s->status;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto work = [&](State& all) {
    CUstream_st* const s = found(all, stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    *graph = nullptr;
    if (!captures(*s)) return cudaErrorIllegalState;
    if (s->mode != cudaStreamCaptureModeRelaxed && s->by != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const bool broken = s->status == cudaStreamCaptureStatusInvalidated;
    if (broken) {
      all.graphs.erase(s->into);
    } else {
      *graph = s->into;
    }
    *s = {};
    return broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  };
  const cudaError_t status = call("cudaStreamEndCapture", work, true);
  if (status != cudaSuccess && *graph != nullptr) {
    state().graphs.erase(*graph);
    *graph = nullptr;
  }
  return status;
}

}  // extern "C"

#endif
