// The driver's reading of CUPTI's records, of commands and of graphs, if a first trial of each
// finds that CUPTI keeps any. CUPTI names nodes of the executable graph: one more is made, of the
// same recorded graph, while CUPTI tells which node is the copy of which (watched_graph.h).
#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <utility>

#include "executor/cuda/runtime/runtime_driver.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::runtime {

/// `work` enqueues, and waits. Its activities are recorded.
template <class Work>
void RuntimeDriver::record_activities(Work work) {
  activities_->begin();
  end_recording(work);
}

/// Recording has begun; it ends also where `work` throws.
template <class Work>
void RuntimeDriver::end_recording(Work work) {
  try {
    work();
  } catch (...) {
    try {
      activities_->end();
    } catch (const RunError&) {  // what the work threw counts
    }
    throw;
  }
  activities_->end();
}

/// Whether CUPTI serves: a memset must be among its records.
bool RuntimeDriver::records() {
  if (activities_ != nullptr || std::exchange(no_activities_, true)) return activities_ != nullptr;
  constexpr std::uint64_t kLabel = 1;
  try {
    const TriedMemory place(device_memory(sizeof(int)), {this});
    activities_ = std::make_unique<Activities>();
    record_activities([&] {
      activities_->label(kLabel);
      check(cudaMemsetAsync(place.get(), 0, sizeof(int), alone_.get()), "enqueue a zeroing");
      check(cudaStreamSynchronize(alone_.get()), "wait for a stream");
    });
    if (!activities_->by_label().contains(kLabel)) {
      throw RunError("CUPTI tells of nothing that the device did");
    }
  } catch (const LostDevice&) {
    throw;
  } catch (const RunError& error) {
    logger().info("no records of the device: {}", error.what());
    activities_.reset();
  }
  return activities_ != nullptr;
}

std::optional<std::vector<double>> RuntimeDriver::measure_by_records(
    std::span<const std::span<const Command>> work, CudaStream stream) {
  const CurrentDevice entered = enter_outside_capture("recording what the device does");
  if (!records()) return std::nullopt;
  record_activities([&] {
    for (std::size_t i = 0; i < work.size(); ++i) {
      activities_->label(i);
      for (const Command& command : work[i]) enqueue(command, stream);
    }
    synchronize(stream);
  });
  std::vector<double> microseconds(work.size());
  for (const auto& [label, us] : activities_->by_label()) {
    if (label < microseconds.size()) microseconds[label] = us;
  }
  return microseconds;
}

/// Whether CUPTI tells of a graph's nodes: of one at the top, of one that reads a guard, and of one
/// in a condition.
bool RuntimeDriver::records_graphs() {
  if (records_graphs_) return *records_graphs_;
  records_graphs_ = false;
  if (!records()) return false;
  constexpr std::size_t kBytes = 64;
  try {
    // Zeros that are written, and the guard.
    const TriedMemory tried(device_memory(2 * kBytes), {this});
    std::byte* const place = tried.get();
    check(cudaMemsetAsync(place + kBytes, 1, sizeof(bool), alone_.get()), "enqueue a filling");
    const auto* guard = reinterpret_cast<const bool*>(place + kBytes);
    GraphBuilder builder({});
    const auto add_zeroing = [&] {
      builder.add({}, 1, [&](cudaGraphNode_t* made, cudaGraph_t graph, auto after) {
        return add_zero(made, graph, after, {place, kBytes});
      });
    };
    add_zeroing();
    builder.begin_cases({&guard, 1}, false);
    add_zeroing();
    builder.end_cases();
    Graph graph;
    graph.commands = builder.commands();
    graph.recorded = builder.take();
    watch(graph, alone_.get());
    activities_->begin();
    std::set<std::int32_t> found;
    for (const RunRecord& run : launch_watched(graph, alone_.get())) found.insert(run.command);
    if (found.size() < graph.commands.size()) {
      throw RunError(fmt::format("CUPTI tells of {} of {} nodes of a graph with a condition",
                                 found.size(), graph.commands.size()));
    }
    records_graphs_ = true;
  } catch (const LostDevice&) {
    throw;
  } catch (const RunError& error) {
    logger().info("no records of graphs: {}", error.what());
  }
  return *records_graphs_;
}

/// Makes the graph that records can be read of, once.
void RuntimeDriver::watch(Graph& graph, cudaStream_t stream) {
  if (graph.watched) return;
  std::unordered_map<cudaGraphNode_t, std::int32_t> commands = graph.commands;
  for (const auto& [node, command] : graph.commands) {
    for (const cudaGraphNode_t within : nodes_within(node)) commands[within] = command;
  }
  record_activities([&] {
    graph.watched = instantiate_watched(activities_->library(), graph.recorded.get(),
                                        NodeCopies(std::move(commands)), stream);
  });
}

/// Recording has begun.
std::vector<RunRecord> RuntimeDriver::launch_watched(const Graph& graph, cudaStream_t stream) {
  end_recording([&] {
    check(cudaGraphLaunch(graph.watched->exec.get(), stream), "launch a graph");
    check(cudaStreamSynchronize(stream), "wait for a stream");
  });
  return graph.watched->copies.runs(activities_->of_nodes());
}

std::optional<std::vector<RunRecord>> RuntimeDriver::launch_by_records(CudaGraphExec graph,
                                                                       CudaStream stream) {
  const CurrentDevice entered = enter_outside_capture("recording what a graph does");
  check_libraries();
  if (!records_graphs()) return std::nullopt;
  Graph& launched = graphs_.at(graph.index);
  try {
    watch(launched, of(stream));
    activities_->begin();
  } catch (const LostDevice&) {
    throw;
  } catch (const RunError& error) {  // another tool came, or memory went
    logger().info("no records of this graph: {}", error.what());
    return std::nullopt;
  }
  std::vector<RunRecord> runs = launch_watched(launched, of(stream));
  check_libraries();
  return runs;
}

}  // namespace metronome::executor::runtime
