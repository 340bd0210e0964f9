// Captures of the host device: what is enqueued becomes nodes, with the order that streams, events
// and conditional nodes give them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/ir/error.h"
#include "tests/cuda/host_driver.h"

namespace metronome {
namespace {

std::string name_of(const std::variant<Command, int>& work) {
  const auto* command = std::get_if<Command>(&work);
  return command == nullptr ? "a condition" : name_of(*command);
}

}  // namespace

void HostDriver::begin_capture(CudaStream stream) {
  forbid_in_capture("a capture begins");
  ++captures_;
  capturing_.emplace();
  origin_ = stream.index;
  captured_commands_ = 0;
  at(stream).captures = true;
}

void HostDriver::add_node(std::variant<Command, int> work, Stream& stream, std::int32_t command) {
  const Case in = stream.cases.empty() ? Case{} : stream.cases.back();
  capturing_->nodes.push_back(
      {std::move(work), command, in, std::exchange(stream.frontier, {}), {}});
  stream.frontier = {static_cast<int>(capturing_->nodes.size()) - 1};
}

void HostDriver::capture(const Command& command, Stream& stream) {
  if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    if (!settings_.conditional_calls && !stream.cases.empty()) {
      throw RunError(fmt::format("{} may not stand in a conditional node", call->name()));
    }
    if (!call->conditional() && !stream.cases.empty()) {
      throw InternalError(fmt::format("a {} in a conditional node", call->name()));
    }
    for (int i = 1; i < libraries_.nodes(*call); ++i) {
      add_node(ZeroCommand{}, stream, captured_commands_);
    }
  }
  add_node(command, stream, captured_commands_++);
}

void HostDriver::begin_cases(std::span<const bool* const> guards, bool otherwise,
                             CudaStream stream) {
  Stream& s = at(stream);
  if (!s.captures) throw InternalError("a condition begins outside of a capture");
  if (guards.empty()) throw InternalError("a condition without a guard");
  for (const bool* guard : guards) require_own(guard, sizeof(bool), "a condition reads");
  const int condition = static_cast<int>(capturing_->conditions.size());
  capturing_->conditions.push_back({{guards.begin(), guards.end()}, otherwise});
  add_node(condition, s, RunRecord::kGuards);
  for (int i = 1; i < kCaseNodes; ++i) add_node(ZeroCommand{}, s, RunRecord::kGuards);
  s.cases.push_back({condition, 0});
}

void HostDriver::next_case(CudaStream stream) {
  Stream& s = at(stream);
  if (s.cases.empty()) throw InternalError("a case of no condition");
  const Graph::Condition& condition = capturing_->conditions[s.cases.back().condition];
  if (++s.cases.back().index ==
      static_cast<int>(condition.guards.size()) + (condition.otherwise ? 1 : 0)) {
    throw InternalError("a case of a condition that has no more");
  }
}

void HostDriver::end_cases(CudaStream stream) {
  Stream& s = at(stream);
  if (s.cases.empty()) throw InternalError("a condition ends that did not begin");
  const Graph::Condition& condition = capturing_->conditions[s.cases.back().condition];
  if (s.cases.back().index + (condition.otherwise ? 0 : 1) !=
      static_cast<int>(condition.guards.size())) {
    throw InternalError("a condition ends that lacks cases");
  }
  s.cases.pop_back();
}

void HostDriver::check_joined(const Stream& origin) const {
  const std::vector<Graph::Node>& nodes = capturing_->nodes;
  std::vector<bool> reached(nodes.size());
  for (const int node : origin.frontier) reached[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) {
      throw InternalError(
          fmt::format("{} is captured on a stream that was not joined", name_of(nodes[i].work)));
    }
    for (const int before : nodes[i].after) reached[before] = true;
  }
}

CudaGraphExec HostDriver::end_capture(CudaStream stream, int expected) {
  if (!capturing_ || stream.index != origin_) {
    throw InternalError(fmt::format("no capture began on stream {}", stream.index));
  }
  check_joined(at(stream));
  const int nodes = static_cast<int>(capturing_->nodes.size());
  if (nodes != expected) {
    throw InternalError(
        fmt::format("the captured graph has {} nodes, but {} were expected", nodes, expected));
  }
  for (int i = 0; i < nodes; ++i) {
    for (const int after : capturing_->nodes[i].after) capturing_->nodes[after].before.push_back(i);
  }
  graphs_.push_back(std::move(*capturing_));
  ++counts_.graphs;
  abandon_capture(stream);
  return {static_cast<int>(graphs_.size()) - 1};
}

void HostDriver::abandon_capture(CudaStream) noexcept {
  capturing_.reset();
  origin_ = -1;
  for (Stream& stream : streams_) {
    stream.captures = false;
    stream.cases.clear();
    stream.frontier.clear();
  }
}

void HostDriver::launch(CudaGraphExec graph, CudaStream stream) {
  if (at(stream).captures) throw InternalError("a graph is launched in a capture");
  if (graph.index < 0 || graph.index >= static_cast<int>(graphs_.size())) {
    throw InternalError(fmt::format("there is no graph {}", graph.index));
  }
  if (graphs_[graph.index].released) {
    throw InternalError(fmt::format("graph {} is launched, and was released", graph.index));
  }
  ++counts_.launches;
  put(Launch{graph.index, graphs_[graph.index].launched++}, stream);
}

void HostDriver::release(CudaGraphExec graph) noexcept {
  const bool known = graph.index >= 0 && graph.index < static_cast<int>(graphs_.size());
  std::string wrong;
  if (capturing_) {
    wrong = "a graph is released while another is captured";
  } else if (!known || graphs_[graph.index].released) {
    wrong = "a graph is released that was not handed out";
  } else if (graphs_[graph.index].finished < graphs_[graph.index].launched) {
    wrong = "a graph is released that is not over";
  }
  if (wrong_release_.empty()) wrong_release_ = wrong;
  if (!wrong.empty()) return;
  ++counts_.released;
  graphs_[graph.index] = {};
  graphs_[graph.index].released = true;
}

}  // namespace metronome
