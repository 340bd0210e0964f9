// A node's rule records its commands over planned addresses. Beside them stand the bytes that they
// touch: `hazards` finds the order of tasks from these alone. So each order is one of bytes:
//
//   y = relu(x), guard g         reads x and g's byte; writes y and the node's scratch
//   it waits for a node          that one writes a byte of its own, and this one reads it
//   it has effects               it writes the one byte of all effects, as others with effects do
//   assignment, not in place     a task behind all nodes: reads the value, writes the storage
//
// The bytes of waits and effects are addresses in the host's memory where no value lies; nothing is
// written there. Inputs, values of storages, views, and constants that lie beside the arena make no
// task.
#include "executor/cuda/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "executor/cuda/program/kept_constants.h"
#include "executor/engine/plan_nodes.h"
#include "graph/ir/guarded.h"

namespace metronome::executor::program {
namespace {

void touch(std::vector<ByteRange>& ranges, const void* begin, std::size_t bytes) {
  if (begin != nullptr && bytes > 0) ranges.push_back({begin, bytes});
}

/// A library's kernels, and those of users' ops, tell nobody what they store, so it is looked at
/// behind them.
void examine_silent(const Node& node, const std::vector<void*>& outputs, const CudaBinding& binding,
                    const cuda::Watch& watch, CommandList& commands) {
  const auto& all = commands.commands();
  const bool library = std::ranges::any_of(
      all, [](const Command& c) { return std::holds_alternative<LibraryCommand>(c); });
  if (!library && cuda_table().has(*node.op)) return;
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    const std::int64_t count = node.types[k].numel();
    if (outputs[k] == nullptr || count == 0) continue;
    with_type(node.types[k].element, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      if constexpr (std::is_floating_point_v<T>) {
        commands.launch(cuda::Examine<T>{static_cast<const T*>(outputs[k]), count, watch},
                        spread(count, 256, binding.device, 4));
      }
    });
  }
}

}  // namespace

Task task_of(const Plan& plan, std::size_t step, const Locator& locate, std::byte* scratch,
             const CudaBinding& binding) {
  const std::int32_t index = plan.schedule.order[step];
  const Node& node = plan.graph.nodes()[index];
  Task task{kernel_of(plan.graph, node), {}, {}};
  Types inputs;
  std::vector<void*> input_data, output_data;
  for (const ValueId id : node.inputs) {
    inputs.push_back(plan.graph.type(id));
    input_data.push_back(locate(id));
    touch(task.touched.reads, input_data.back(), inputs.back().bytes());
  }
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    output_data.push_back(locate({index, static_cast<std::int32_t>(k)}));
    touch(task.touched.writes, output_data.back(), node.types[k].bytes());
  }
  touch(task.touched.writes, scratch, plan.scratch_bytes[index]);
  // A guarded node reports no fault where its guard is false: nothing needs its result then.
  const bool* reported_if =
      node.guard.present() ? reinterpret_cast<const bool*>(locate(node.guard)) : nullptr;
  touch(task.touched.reads, reported_if, sizeof(bool));
  cuda::Watch watch;
  cuda::Lookups lookups;
  if (binding.faults != nullptr) {
    watch = binding.faults->watch(binding.base + index, reported_if);
    lookups = binding.faults->lookups(binding.base + index, reported_if);
  }
  CommandList commands;
  binding.table.of(*node.op).record(
      *node.op,
      CudaLaunch{inputs, node.types, input_data, output_data, scratch, plan.choices[index],
                 binding.device, binding.constants, commands, watch, lookups, binding.tf32});
  if (watch.met != nullptr) examine_silent(node, output_data, binding, watch, commands);
  task.commands = commands.commands();
  return task;
}

namespace {

/// Its address stands for all that nodes do beside their results. Its number means nothing.
constexpr char kEffects = 0;

/// Represents waits as bytes: as if a node wrote a byte of its own, and each node that waits for it
/// read that byte. So an order that no value's bytes ask for is kept on any streams and in any
/// regions. The address of the `Node` on the host stands for its byte: no value lies there.
class WaitBytes {
 public:
  explicit WaitBytes(const ir::Graph& graph) : graph_(graph), waited_for_(graph.nodes().size()) {
    for (const Node& node : graph.nodes()) {
      for (const std::int32_t before : node.waits_for) waited_for_[maker_of(before)] = true;
    }
  }

  void touch_bytes(std::int32_t node, TouchedMemory& touched) const {
    if (waited_for_[node]) touch(touched.writes, &graph_.nodes()[node], 1);
    for (const std::int32_t before : graph_.nodes()[node].waits_for) {
      touch(touched.reads, &graph_.nodes()[maker_of(before)], 1);
    }
  }

 private:
  /// The node that makes the bytes of a node's first result.
  std::int32_t maker_of(std::int32_t node) const {
    while (const auto view = view_of(graph_, {node, 0})) node = view->of.node;
    return node;
  }

  const ir::Graph& graph_;
  std::vector<bool> waited_for_;
};

}  // namespace

std::vector<Task> tasks_of(const Plan& plan, const Bases& bases, const CudaBinding& binding) {
  std::vector<Task> all;
  const KeptConstants constants(plan.graph, binding.constants);
  const Locator locate = [&](ValueId id) {
    const std::byte* kept = constants.find(id);
    // Nobody writes to a constant.
    return kept == nullptr ? address_of(plan, bases, id) : const_cast<std::byte*>(kept);
  };
  const WaitBytes waits(plan.graph);
  for (std::size_t step = 0; step < plan.schedule.order.size(); ++step) {
    const std::int32_t node = plan.schedule.order[step];
    if (!has_kernel(plan.graph, plan.graph.nodes()[node]) || constants.has(node)) continue;
    std::byte* scratch =
        plan.scratch_bytes[node] > 0 ? bases.arena + plan.memory.scratch_offsets[node] : nullptr;
    all.push_back(task_of(plan, step, locate, scratch, binding));
    Task& task = all.back();
    if (plan.graph.nodes()[node].op->as<Guard>() != nullptr) task.computes = {node, 0};
    // As if each wrote what the next one writes: so they keep their order on any streams.
    if (plan.graph.nodes()[node].op->effects()) touch(task.touched.writes, &kEffects, 1);
    waits.touch_bytes(node, task.touched);
    if (const ValueId guard = guard_of(plan, node); guard.present()) {  // its own or a stronger one
      task.guard = guard;
      task.guard_at = reinterpret_cast<const bool*>(locate(guard));
      touch(task.touched.reads, task.guard_at, sizeof(bool));
    }
  }
  const auto assignments = plan.graph.assignments();
  for (std::size_t i = 0; i < assignments.size(); ++i) {
    if (plan.schedule.in_place[i]) continue;
    const std::byte* from = locate(assignments[i].value);
    std::byte* to = bases.storages[assignments[i].storage.index];
    const std::size_t bytes = plan.graph.type(assignments[i].value).bytes();
    Task task{kernel_of_assignment(plan.graph, assignments[i]), {CopyCommand{to, from, bytes}}, {}};
    touch(task.touched.reads, from, bytes);
    touch(task.touched.writes, to, bytes);
    all.push_back(std::move(task));
  }
  return all;
}

}  // namespace metronome::executor::program
