#ifndef METRONOME_NO_CUDA

#include "tests/cuda_runtime/stub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

// The runtime's handles are pointers to these.
struct CUgraphNode_st {
  cudaGraphNodeType type;
  std::vector<cudaGraphNode_t> after;
  std::vector<std::unique_ptr<CUgraph_st>> within;  // bodies, or the child graph
  std::vector<cudaGraph_t> bodies;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  cudaGraph_t around = nullptr;
};
struct CUgraphExec_st {
  bool uploaded = false;
};
struct CUstream_st {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  std::thread::id by;
  cudaGraph_t into = nullptr;
  std::vector<cudaGraphNode_t> last;
};
struct CUevent_st {
  bool timed = false;
};
struct CUlib_st {
  int kernel = 0;
};

namespace metronome::stub {
namespace {

struct State {
  std::mutex mutex;
  std::vector<std::string> calls;
  int failing = -1;
  std::map<std::string, cudaError_t> refused;
  std::map<void*, std::size_t> memory, host_memory;
  std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::map<cudaGraph_t, std::unique_ptr<CUgraph_st>> graphs;
  std::map<cudaGraphExec_t, std::unique_ptr<CUgraphExec_st>> executables;
  std::map<cudaLibrary_t, std::unique_ptr<CUlib_st>> libraries;
  std::set<cudaGraphConditionalHandle> handles;
  cudaGraphConditionalHandle next_handle = 1;
  std::string last_graph;
};

State& state() {
  static State all;
  return all;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// One call: it is counted, and fails where it is asked to. `work` gives what it answers otherwise.
template <class Work>
cudaError_t call(const char* name, Work work, bool gives_back = false) {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  const int number = static_cast<int>(all.calls.size());
  all.calls.emplace_back(name);
  cudaError_t asked = number == all.failing ? cudaErrorUnknown : cudaSuccess;
  if (const auto found = all.refused.find(name); found != all.refused.end()) asked = found->second;
  if (asked == cudaSuccess || (gives_back && number == all.failing)) {
    const cudaError_t answer = work(all);
    if (asked == cudaSuccess) asked = answer;
  }
  return remember(asked);
}

bool captures(const CUstream_st& stream) { return stream.status != cudaStreamCaptureStatusNone; }

/// Whether a thread may not do what might break a capture: in a thread-local or global one of its
/// own, or while another thread is in a global one.
bool held_back(const State& all) {
  return std::ranges::any_of(all.streams, [](const auto& entry) {
    const CUstream_st& s = *entry.second;
    if (!captures(s) || s.mode == cudaStreamCaptureModeRelaxed) return false;
    return s.mode == cudaStreamCaptureModeGlobal || s.by == std::this_thread::get_id();
  });
}

void invalidate(CUstream_st& stream) {
  if (captures(stream)) stream.status = cudaStreamCaptureStatusInvalidated;
}

/// What allocates, loads or asks: refused in a capture that holds this thread back, which breaks.
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

/// Whether it lies in memory of the device.
bool on_device(const State& all, const void* at) {
  return std::ranges::any_of(all.memory, [at](const auto& held) {
    const auto* begin = static_cast<const std::byte*>(held.first);
    return at >= begin && at < begin + held.second;
  });
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

std::unique_ptr<CUgraph_st> copy_of(const CUgraph_st& graph, cudaGraph_t around) {
  auto copy = std::make_unique<CUgraph_st>();
  copy->around = around;
  std::map<cudaGraphNode_t, cudaGraphNode_t> twin;
  for (const auto& node : graph.nodes) {
    auto made = std::make_unique<CUgraphNode_st>();
    made->type = node->type;
    for (const cudaGraphNode_t before : node->after) made->after.push_back(twin.at(before));
    twin[node.get()] = made.get();
    copy->nodes.push_back(std::move(made));
  }
  return copy;
}

/// Work on a stream: it runs, or becomes a node. The legacy stream waits for all others.
template <class Work>
cudaError_t enqueue(State& all, cudaStream_t stream, cudaGraphNodeType type, Work work) {
  if (stream == nullptr) {
    for (auto& [handle, other] : all.streams) invalidate(*other);
    return cudaErrorStreamCaptureImplicit;
  }
  CUstream_st* const s = found(all, stream);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (s->status == cudaStreamCaptureStatusInvalidated) return cudaErrorStreamCaptureInvalidated;
  if (!captures(*s)) return work();
  cudaGraphNode_t node = nullptr;
  const cudaError_t status = add(all, &node, s->into, s->last.data(), s->last.size(), type);
  s->last = {node};
  return status;
}

/// What the host may not ask of a stream that is captured.
cudaError_t outside_capture(State& all, cudaStream_t stream) {
  CUstream_st* const s = found(all, stream);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (!captures(*s)) return cudaSuccess;
  invalidate(*s);
  return cudaErrorStreamCaptureUnsupported;
}

const char* name_of(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "copy";
    case cudaGraphNodeTypeMemset:
      return "zero";
    case cudaGraphNodeTypeGraph:
      return "child";
    case cudaGraphNodeTypeConditional:
      return "condition";
    default:
      return "other";
  }
}

std::string text_of(const CUgraph_st& graph, const std::string& margin) {
  std::string text;
  std::map<cudaGraphNode_t, std::size_t> number;
  for (const auto& node : graph.nodes) {
    number.emplace(node.get(), number.size());
    std::string after;
    for (const cudaGraphNode_t before : node->after) after += fmt::format(" {}", number.at(before));
    text += fmt::format("{}{} {}{}{}\n", margin, number.at(node.get()), name_of(node->type),
                        after.empty() ? "" : " after", after);
    for (std::size_t i = 0; i < node->within.size(); ++i) {
      if (node->within.size() > 1) text += fmt::format("{}  case {}\n", margin, i);
      text += text_of(*node->within[i], margin + "  ");
    }
  }
  return text;
}

}  // namespace

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
  last_error = cudaSuccess;
}

const std::vector<std::string>& calls() { return state().calls; }
void fail(int number) { state().failing = number; }
void fail(const std::string& name, cudaError_t error) { state().refused[name] = error; }

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
cudaError_t cudaSetDevice(int) {
  return call("cudaSetDevice", [](State&) { return cudaSuccess; });
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
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  return call("cudaGetDeviceProperties", [&](State&) {
    *properties = {};
    std::strcpy(properties->name, "a stub");
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

// --- Graphs ---

cudaError_t cudaGraphCreate(cudaGraph_t* made, unsigned) {
  return call("cudaGraphCreate", [&](State& all) {
    *made = make_graph(all);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const auto work = [&](State& all) {
    return all.graphs.erase(graph) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  };
  return call("cudaGraphDestroy", work, true);
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, std::size_t count,
                                   const cudaKernelNodeParams* node) {
  return call("cudaGraphAddKernelNode", [&](State& all) {
    if (node->func == nullptr || node->gridDim.x == 0 || node->kernelParams == nullptr) {
      return cudaErrorInvalidValue;
    }
    return add(all, made, graph, after, count, cudaGraphNodeTypeKernel);
  });
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* made, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, std::size_t count, void*,
                                     const void*, std::size_t bytes, cudaMemcpyKind) {
  return call("cudaGraphAddMemcpyNode1D", [&](State& all) {
    if (bytes == 0) return cudaErrorInvalidValue;
    return add(all, made, graph, after, count, cudaGraphNodeTypeMemcpy);
  });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, std::size_t count,
                                   const cudaMemsetParams* node) {
  return call("cudaGraphAddMemsetNode", [&](State& all) {
    const unsigned size = node->elementSize;
    if ((size != 1 && size != 2 && size != 4) || node->width == 0 || node->height == 0) {
      return cudaErrorInvalidValue;
    }
    return add(all, made, graph, after, count, cudaGraphNodeTypeMemset);
  });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                       const cudaGraphNode_t* after, std::size_t count,
                                       cudaGraph_t child) {
  return call("cudaGraphAddChildGraphNode", [&](State& all) {
    if (!known(all, child)) return cudaErrorInvalidValue;
    const cudaError_t status = add(all, made, graph, after, count, cudaGraphNodeTypeGraph);
    if (status == cudaSuccess) (*made)->within.push_back(copy_of(*child, graph));
    return status;
  });
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* made, cudaGraph_t graph,
                                             unsigned, unsigned) {
  return call("cudaGraphConditionalHandleCreate", [&](State& all) {
    if (!known(all, graph)) return cudaErrorInvalidValue;
    *made = all.next_handle++;
    all.handles.insert(*made);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData*, std::size_t count,
                             cudaGraphNodeParams* node) {
  return call("cudaGraphAddNode", [&](State& all) {
    cudaConditionalNodeParams& condition = node->conditional;
    if (node->type != cudaGraphNodeTypeConditional || condition.size == 0) {
      return cudaErrorInvalidValue;
    }
    if (all.handles.erase(condition.handle) == 0) return cudaErrorInvalidValue;
    const cudaError_t status = add(all, made, graph, after, count, node->type);
    if (status != cudaSuccess) return status;
    for (unsigned i = 0; i < condition.size; ++i) {
      (*made)->within.push_back(std::make_unique<CUgraph_st>());
      (*made)->within.back()->around = graph;
      (*made)->bodies.push_back((*made)->within.back().get());
    }
    condition.phGraph_out = (*made)->bodies.data();
    return status;
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetNodes", [&](State& all) {
    if (!known(all, graph)) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      for (std::size_t i = 0; i < *count; ++i) nodes[i] = graph->nodes[i].get();
    }
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call("cudaGraphNodeGetType", [&](State&) {
    *type = node->type;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call("cudaGraphInstantiate", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    if (!all.graphs.contains(graph)) return cudaErrorInvalidValue;
    auto executable = std::make_unique<CUgraphExec_st>();
    *made = executable.get();
    all.executables.emplace(*made, std::move(executable));
    all.last_graph = text_of(*graph, "");
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const auto work = [&](State& all) {
    return all.executables.erase(executable) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  };
  return call("cudaGraphExecDestroy", work, true);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphUpload", [&](State& all) {
    executable->uploaded = true;
    return outside_capture(all, stream);
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&](State& all) {
    if (!executable->uploaded) return cudaErrorInvalidValue;
    return outside_capture(all, stream);
  });
}

// --- Kernels ---

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void**) {
  return call("cudaLaunchKernelExC", [&](State& all) {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    return enqueue(all, config->stream, cudaGraphNodeTypeKernel, [] { return cudaSuccess; });
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* code, const void* kernel) {
  return call("cudaFuncGetAttributes", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *code = {};
    code->maxThreadsPerBlock = 1024;
    code->numRegs = 32;
    code->maxDynamicSharedSizeBytes = 48 << 10;
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t* made, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return call("cudaLibraryLoadData", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    auto library = std::make_unique<CUlib_st>();
    *made = library.get();
    all.libraries.emplace(*made, std::move(library));
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char*) {
  return call("cudaLibraryGetKernel", [&](State&) {
    *kernel = reinterpret_cast<cudaKernel_t>(&library->kernel);
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  const auto work = [&](State& all) {
    return all.libraries.erase(library) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  };
  return call("cudaLibraryUnload", work, true);
}

}  // extern "C"

#endif
