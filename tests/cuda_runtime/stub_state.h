// The stub's state, and the rules that its functions share. Internal to the stub.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_runtime/stub.h"

// The runtime's handles are pointers to these.
struct CUgraphNode_st {
  cudaGraphNodeType type;
  std::vector<cudaGraphNode_t> after;
  bool early = false;                               // lies behind an edge of type programmatic
  std::vector<std::unique_ptr<CUgraph_st>> within;  // bodies, or the child graph
  std::vector<cudaGraph_t> bodies;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  cudaGraph_t around = nullptr;
};
struct CUgraphExec_st {
  bool uploaded = false;
  std::unique_ptr<CUgraph_st> copy;
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
  Watch watch;
};

State& state();
/// Keeps an error that cudaGetLastError gives once.
cudaError_t remember(cudaError_t error);

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

inline bool captures(const CUstream_st& stream) {
  return stream.status != cudaStreamCaptureStatusNone;
}
void invalidate(CUstream_st& stream);
/// Refuses a call that allocates, loads or asks in a capture that holds this thread back, and
/// breaks the capture.
cudaError_t unsafe(State& all);
/// Null for one that is not there.
CUstream_st* found(State& all, cudaStream_t stream);
/// Refuses a call that the host may not make on a stream that is captured, and breaks the capture.
cudaError_t outside_capture(State& all, cudaStream_t stream);

cudaGraph_t make_graph(State& all);
/// Also of one that another owns.
bool known(const State& all, cudaGraph_t graph);
/// Adds a node after others of the same graph.
cudaError_t add(State& all, cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                std::size_t count, cudaGraphNodeType type);

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
  if (!captures(*s)) {
    if (all.watch.on_work) all.watch.on_work(nullptr, type);
    return work();
  }
  cudaGraphNode_t node = nullptr;
  const cudaError_t status = add(all, &node, s->into, s->last.data(), s->last.size(), type);
  s->last = {node};
  return status;
}

}  // namespace metronome::stub
