// The CUDA runtime's C interface in place of a device's. It keeps the rules of streams, captures
// and graphs as the driver does, and refuses with the driver's errors; kernels do nothing.
//
// From "CUDA Runtime API" 13.0: Stream Management, Graph Management, and "CUDA C++ Programming
// Guide" 13.0, "Prohibited and Unhandled Operations".
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

namespace metronome::stub {

/// Counts of the things that were handed out and not given back.
struct Living {
  int memory = 0, host_memory = 0, streams = 0, events = 0, libraries = 0;
  int graphs = 0;  ///< those that a graph owns are not counted
  int executables = 0;
  bool operator==(const Living&) const = default;
};
Living living();

/// Everything begins anew; throws std::logic_error where something lives.
void reset();
/// Everything begins anew, and streams and graphs that still live are forgotten.
void forget();
/// Calls since `reset`, in their order; those that only tell of errors are not among them.
const std::vector<std::string>& calls();
/// Adds one that a stub of another library was asked for.
void note(const std::string& call);
/// The call of this number, from 0, fails with cudaErrorUnknown; one that gives something back does
/// so first.
void fail(int call);
/// Calls of this name fail with an error.
void fail(const std::string& name, cudaError_t error);

/// Told of what happens, as a tool is that watches the driver; in the stub's lock.
struct Watch {
  /// Instantiating a graph copies its nodes, those of bodies and child graphs among them.
  std::function<void(cudaGraphNode_t original, cudaGraphNode_t copy)> on_copy;
  /// A kernel, a copy or a memset runs: a copy of a node, or work that was enqueued, null.
  std::function<void(cudaGraphNode_t node, cudaGraphNodeType type)> on_work;
};
/// Watches from here until `forget`. All bodies of conditions run.
void watch(Watch watch);

/// Whether this thread stands in a capture in which the driver refuses to allocate.
bool is_held_back();
/// The device whose context is current on this thread; -1: none.
int device_in_use();
/// The graph that was instantiated last, a line for each node: "2 kernel after 0 1"; nodes of
/// bodies and child graphs are indented.
std::string last_graph();

}  // namespace metronome::stub
