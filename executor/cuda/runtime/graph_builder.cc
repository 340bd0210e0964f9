// "CUDA C++ Programming Guide" 13.0, "Conditional graph nodes".
#include "executor/cuda/runtime/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/cuda/program/io_device.h"
#include "graph/ir/error.h"

namespace metronome::executor::runtime {

GraphBuilder::GraphBuilder(CudaStream origin) : origin_(origin) {
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), "make a graph");
  graph_.reset(made);
  streams_[origin.index];
}

cudaGraph_t GraphBuilder::graph() const {
  return open_.empty() ? graph_.get() : open_.back().bodies[open_.back().body];
}

GraphBuilder::Nodes& GraphBuilder::last(CudaStream stream) {
  if (open_.empty()) return streams_.at(stream.index);
  if (stream != origin_) throw InternalError("a condition is captured on one stream");
  return open_.back().last;
}

void GraphBuilder::add(CudaStream stream, int nodes, const NodeMaker& make, bool own) {
  work_[add_node(stream, nodes, make, own)] = commands_++;
}

cudaGraphNode_t GraphBuilder::add_node(CudaStream stream, int nodes, const NodeMaker& make,
                                       bool own) {
  Nodes& after = last(stream);
  cudaGraphNode_t made = nullptr;
  const bool early = early_ && own && after.size() == 1 && own_.contains(after[0]);
  check(make(&made, graph(), early ? Nodes() : after), "add a node to a graph");
  if (early) check(add_early_edge(graph(), after[0], made), "let a kernel begin early");
  if (own) own_.insert(made);
  after = {made};
  nodes_ += nodes;
  return made;
}

void GraphBuilder::record(CudaEvent event, CudaStream stream) {
  if (in_case()) throw InternalError("an event is recorded inside of a condition");
  events_[event.index] = last(stream);
}

bool GraphBuilder::wait(CudaStream stream, CudaEvent event) {
  const auto recorded = events_.find(event.index);
  if (recorded == events_.end()) {
    if (!takes(stream)) return false;
    throw InternalError(fmt::format("stream {} waits in a capture for event {}, which is not of it",
                                    stream.index, event.index));
  }
  if (in_case()) throw InternalError("an event is waited for inside of a condition");
  Nodes& after = streams_[stream.index];
  for (const cudaGraphNode_t node : recorded->second) {
    if (std::ranges::find(after, node) == after.end()) after.push_back(node);
  }
  return true;
}

void GraphBuilder::begin_cases(std::span<const bool* const> guards, bool otherwise) {
  static_assert(CudaDriver::kMostCases == cuda::Cases::kMost);
  if (guards.empty() || guards.size() > CudaDriver::kMostCases) {
    throw InternalError(fmt::format("a condition of {} guards", guards.size()));
  }
  cudaGraphConditionalHandle handle = {};
  check(cudaGraphConditionalHandleCreate(&handle, graph(), 0, cudaGraphCondAssignDefault),
        "make a condition");
  cuda::Cases cases{};
  std::ranges::copy(guards, cases.guards);
  cases.count = static_cast<int>(guards.size());
  void* arguments[] = {&handle, &cases};
  const cudaGraphNode_t reads = add_node(
      origin_, 1, [&](auto* made, cudaGraph_t graph, std::span<const cudaGraphNode_t> after) {
        return add_kernel(made, graph, after, cuda::condition_kernel(), cuda::kConditionShape,
                          arguments);
      });
  work_[reads] = RunRecord::kGuards;

  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = guards.size() == 1 ? cudaGraphCondTypeIf : cudaGraphCondTypeSwitch;
  parameters.conditional.size = static_cast<unsigned>(guards.size() + (otherwise ? 1 : 0));
  Condition opened;
  add_node(origin_, 1, [&](auto* made, cudaGraph_t graph, std::span<const cudaGraphNode_t> after) {
    const cudaError_t status =
        cudaGraphAddNode(made, graph, after.data(), nullptr, after.size(), &parameters);
    opened.node = *made;
    return status;
  });
  opened.bodies.assign(parameters.conditional.phGraph_out,
                       parameters.conditional.phGraph_out + parameters.conditional.size);
  open_.push_back(std::move(opened));
}

void GraphBuilder::next_case() {
  if (open_.empty() || open_.back().body + 1 == open_.back().bodies.size()) {
    throw InternalError("a case of a condition that has no more");
  }
  ++open_.back().body;
  open_.back().last.clear();
}

void GraphBuilder::end_cases() {
  if (open_.empty() || open_.back().body + 1 != open_.back().bodies.size()) {
    throw InternalError("a condition ends that did not begin, or lacks cases");
  }
  open_.pop_back();  // what follows comes after the node itself
}

RecordedGraph GraphBuilder::take() {
  if (in_case()) throw InternalError("the capture ends inside of a condition");
  return std::move(graph_);
}

}  // namespace metronome::executor::runtime
