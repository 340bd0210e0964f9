// Conditional regions of a capture (CUDA C++ Programming Guide 13.0, "Conditional graph nodes").
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "executor/cuda/io_device.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "graph/error.h"

namespace metronome {
namespace {

/// The graph that a stream is being captured into, and the nodes that its next one comes after.
struct Capture {
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> after;
  std::vector<cudaGraphEdgeData> edges;
};

Capture capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* after = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  Capture capture;
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, &capture.graph, &after, &edges, &count),
        "ask for a capture");
  if (status != cudaStreamCaptureStatusActive) throw InternalError("a capture was broken");
  capture.after.assign(after, after + count);
  if (edges != nullptr) {
    capture.edges.assign(edges, edges + count);
  } else {
    capture.edges.resize(count);
  }
  return capture;
}

/// What the body of a conditional node may hold, as of CUDA 13.0.
bool may_be_conditional(cudaGraphNodeType type) {
  return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
         type == cudaGraphNodeTypeMemset || type == cudaGraphNodeTypeEmpty ||
         type == cudaGraphNodeTypeGraph || type == cudaGraphNodeTypeConditional;
}

/// Throws RunError where the body holds what it may not; else counts its nodes.
int nodes_of_body(cudaGraph_t body) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(body, nullptr, &count), "count nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(body, nodes.data(), &count), "list nodes");
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    check(cudaGraphNodeGetType(node, &type), "tell a node's type");
    if (!may_be_conditional(type)) {
      throw RunError(fmt::format("a node of type {} cannot stand in a conditional region",
                                 static_cast<int>(type)));
    }
  }
  return static_cast<int>(count);
}

}  // namespace

void RuntimeDriver::begin_if(const bool* guard, CudaStream stream) {
  if (capturing_ != stream) throw InternalError("a condition outside of a capture");
  if (body_ != nullptr) throw InternalError("a condition begins inside of another");
  enter();
  cudaGraphConditionalHandle handle = {};
  check(cudaGraphConditionalHandleCreate(&handle, capture_of(of(stream)).graph, 0,
                                         cudaGraphCondAssignDefault),
        "make a condition");
  cuda::set_condition(handle, guard, of(stream));
  check(cudaGetLastError(), "capture a condition");
  const Capture capture = capture_of(of(stream));
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = cudaGraphCondTypeIf;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddNode(&node, capture.graph, capture.after.data(), capture.edges.data(),
                         capture.after.size(), &parameters),
        "add a condition");
  const cudaGraphEdgeData plain = {};
  check(cudaStreamUpdateCaptureDependencies(of(stream), &node, &plain, 1,
                                            cudaStreamSetCaptureDependencies),
        "go on after a condition");
  cudaGraph_t body = parameters.conditional.phGraph_out[0];
  check(cudaStreamBeginCaptureToGraph(bodies_.get(), body, nullptr, nullptr, 0,
                                      cudaStreamCaptureModeThreadLocal),
        "begin a region");
  body_ = body;
}

void RuntimeDriver::end_if(CudaStream stream) {
  if (capturing_ != stream || body_ == nullptr) {
    throw InternalError("a condition ends that did not begin");
  }
  enter();
  cudaGraph_t body = std::exchange(body_, nullptr);
  check(cudaStreamEndCapture(bodies_.get(), &body), "end a region");
  body_nodes_ += nodes_of_body(body);
}

}  // namespace metronome
