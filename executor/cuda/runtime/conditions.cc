// Conditional regions of a capture (CUDA C++ Programming Guide 13.0, "Conditional graph nodes").
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "executor/cuda/program/io_device.h"
#include "executor/cuda/runtime/graph_nodes.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "graph/ir/error.h"

namespace metronome::executor::runtime {
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

/// Throws RunError where the body holds what it may not; else counts its nodes.
int nodes_of_body(cudaGraph_t body) {
  const std::vector<cudaGraphNodeType> types = node_types(body);
  if (const auto type = unconditional(types)) {
    throw RunError(fmt::format("a node of type {} cannot stand in a conditional region",
                               static_cast<int>(*type)));
  }
  return static_cast<int>(types.size());
}

}  // namespace

/// All bodies are captured on one stream, one after the other: that of an outer node rests while
/// one of an inner node is captured.
void RuntimeDriver::begin_body(cudaGraph_t body, const cudaGraphNode_t* after) {
  const cudaGraphEdgeData plain = {};
  check(
      cudaStreamBeginCaptureToGraph(bodies_.get(), body, after, after == nullptr ? nullptr : &plain,
                                    after == nullptr ? 0 : 1, cudaStreamCaptureModeThreadLocal),
      "begin a region");
}

/// `whole`: nothing follows in it.
void RuntimeDriver::end_body(bool whole) {
  cudaGraph_t body = nullptr;
  check(cudaStreamEndCapture(bodies_.get(), &body), "end a region");
  if (whole) body_nodes_ += nodes_of_body(body);
}

void RuntimeDriver::begin_cases(std::span<const bool* const> guards, bool otherwise,
                                CudaStream stream) {
  if (capturing_ != stream) throw InternalError("a condition outside of a capture");
  static_assert(kMostCases == cuda::Cases::kMost);
  if (guards.empty() || guards.size() > kMostCases) {
    throw InternalError(fmt::format("a condition of {} guards", guards.size()));
  }
  enter();
  const bool nested = !open_.empty();
  const cudaStream_t on = nested ? bodies_.get() : of(stream);
  cudaGraphConditionalHandle handle = {};
  check(cudaGraphConditionalHandleCreate(&handle, capture_of(on).graph, 0,
                                         cudaGraphCondAssignDefault),
        "make a condition");
  cuda::Cases cases{};
  std::ranges::copy(guards, cases.guards);
  cases.count = static_cast<int>(guards.size());
  cuda::set_condition(handle, cases, on);
  check(cudaGetLastError(), "capture a condition");

  const Capture capture = capture_of(on);
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = guards.size() == 1 ? cudaGraphCondTypeIf : cudaGraphCondTypeSwitch;
  parameters.conditional.size = static_cast<unsigned>(guards.size() + (otherwise ? 1 : 0));
  OpenNode opened;
  opened.around = capture.graph;
  check(cudaGraphAddNode(&opened.node, capture.graph, capture.after.data(), capture.edges.data(),
                         capture.after.size(), &parameters),
        "add a condition");
  opened.bodies.assign(parameters.conditional.phGraph_out,
                       parameters.conditional.phGraph_out + parameters.conditional.size);
  if (nested) {
    end_body(false);
  } else {
    const cudaGraphEdgeData plain = {};
    check(cudaStreamUpdateCaptureDependencies(on, &opened.node, &plain, 1,
                                              cudaStreamSetCaptureDependencies),
          "go on after a condition");
  }
  begin_body(opened.bodies.front(), nullptr);
  open_.push_back(std::move(opened));
}

void RuntimeDriver::next_case(CudaStream stream) {
  if (capturing_ != stream || open_.empty() ||
      open_.back().body + 1 == open_.back().bodies.size()) {
    throw InternalError("a case of a condition that has no more");
  }
  enter();
  end_body(true);
  OpenNode& node = open_.back();
  begin_body(node.bodies[++node.body], nullptr);
}

void RuntimeDriver::end_cases(CudaStream stream) {
  if (capturing_ != stream || open_.empty() ||
      open_.back().body + 1 != open_.back().bodies.size()) {
    throw InternalError("a condition ends that did not begin, or lacks cases");
  }
  enter();
  end_body(true);
  const OpenNode node = std::move(open_.back());
  open_.pop_back();
  if (!open_.empty()) begin_body(node.around, &node.node);
}

}  // namespace metronome::executor::runtime
