#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "executor/cpu/binding.h"
#include "executor/cpu/cpu_engine.h"
#include "executor/cpu/cpu_watch.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/runner_engine.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome::executor::cpu {
namespace {

/// One plan: every value keeps memory of its own, so no plan can be wrong here.
class PlanWalk {
 public:
  PlanWalk(Plan plan, const Memory& memory, const StorageVersions& versions, const CpuTable& table,
           const StepwiseChecks& checks, FaultSlot& faults, std::size_t base)
      : plan_(std::move(plan)), memory_(memory), observer_(checks.observer) {
    const ir::Graph& graph = plan_.graph;
    const std::vector<std::size_t> storages = memory.storages_of(graph);
    for (const std::size_t storage : storages) {
      storages_.push_back(memory.storage_blocks[storage].data());
    }
    values_.resize(graph.nodes().size());
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!has_kernel(graph, node)) continue;
      for (std::size_t k = 0; k < node.types.size(); ++k) {
        // A saved output that nothing reads is absent here too: the kernel takes the same path.
        const bool absent = plan_.memory.places[i][k].in == plan::Place::Kind::none;
        values_[i].push_back(absent ? Block() : Block(node.types[k].bytes()));
      }
    }
    const Locator locate = [this](ValueId id) { return address(id); };
    const BoundMemory bound{locate, versions, storages};
    std::optional<CpuWatch> watch;
    if (checks.watch) add(watch.emplace(plan_, memory, locate, faults, base).begin(), nullptr, -1);
    for (std::size_t step = 0; step < plan_.schedule.order.size(); ++step) {
      const std::int32_t node = plan_.schedule.order[step];
      if (!has_kernel(graph, graph.nodes()[node])) continue;
      scratch_.emplace_back(plan_.scratch_bytes[node]);
      const ValueId guard = graph.nodes()[node].guard;
      const bool* runs_if =
          guard.present() ? reinterpret_cast<const bool*>(address(guard)) : nullptr;
      add(bind_node(table, plan_, node, bound, scratch_.back().data(),
                    {&faults, fault_place(base + node, FaultKind::lookup)}),
          runs_if, node);
      if (!watch) continue;
      if (CpuKernel look = watch->after(node)) add(std::move(look), runs_if, -1);
    }
    for (const Assignment& a : graph.assignments()) {
      assigned_.push_back(
          {storages_[a.storage.index], address(a.value), graph.type(a.value).bytes()});
    }
    for (const Readable& r : graph.readables()) {
      readables_.push_back(r.value.present() ? in_block(r.value) : BlockPlace{});
    }
  }

  void run() const {
    std::size_t i = 0;
    try {
      for (; i < kernels_.size(); ++i) {
        if (guards_[i] == nullptr || *guards_[i]) observer_ ? run_observed(i) : kernels_[i]();
      }
    } catch (const std::exception& failure) {
      // Storages are written below.
      throw BrokenStep(nodes_[i] < 0 ? "watch" : describe(plan_.graph.nodes()[nodes_[i]]), failure,
                       false);
    }
    for (const StorageCopy& c : assigned_) std::memcpy(c.to, c.from, c.bytes);
  }

  const Plan& plan() const { return plan_; }
  const Type& readable_type(std::size_t index) const {
    return plan_.graph.type(plan_.graph.readables()[index].value);
  }
  BlockPlace readable(std::size_t index) const { return readables_[index]; }

 private:
  struct StorageCopy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };

  BlockPlace in_block(ValueId value) const {
    std::size_t offset = 0;
    while (const auto view = view_of(plan_.graph, value)) {
      value = view->of;
      offset += view->offset;
    }
    return {&values_[value.node][value.output], offset};
  }
  void add(CpuKernel kernel, const bool* guard, std::int32_t node) {
    kernels_.push_back(std::move(kernel));
    guards_.push_back(guard);
    nodes_.push_back(node);
  }
  void run_observed(std::size_t kernel) const {
    if (nodes_[kernel] < 0) return kernels_[kernel]();
    ObservedNode seen{.graph = plan_.graph, .index = nodes_[kernel], .operands = {}, .results = {}};
    const Node& node = seen.node();
    for (const ValueId id : node.inputs) {
      seen.operands.push_back(contiguous_tensor({}, address(id), plan_.graph.type(id)));
    }
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      seen.results.push_back(contiguous_tensor(
          {}, address({seen.index, static_cast<std::int32_t>(k)}), node.types[k]));
    }
    observer_->before(seen);
    kernels_[kernel]();
    observer_->after(seen);
  }

  std::byte* address(ValueId id) const {
    const Node& node = plan_.graph.node(id);
    if (const auto view = view_of(plan_.graph, id)) return address(view->of) + view->offset;
    if (const Input* input = node.op->as<Input>()) return memory_.input(*input);
    if (const Read* read = node.op->as<Read>()) return storages_[read->storage.index];
    return values_[id.node][id.output].data();
  }

  Plan plan_;
  const Memory& memory_;
  std::vector<std::byte*> storages_;        // [StorageId of the graph]
  std::vector<std::vector<Block>> values_;  // [node][output]
  std::vector<Block> scratch_;
  std::vector<StorageCopy> assigned_;  // at the end of a step
  std::vector<BlockPlace> readables_;  // no block where the plan does not compute it
  std::vector<CpuKernel> kernels_;
  std::vector<const bool*> guards_;  // [kernel] null: always
  std::vector<std::int32_t> nodes_;  // [kernel] below zero: a look of `watch`
  std::shared_ptr<Observer> observer_;
};

class Stepwise final : public RunnerEngine<PlanWalk> {
 public:
  Stepwise(std::vector<Plan> plans, const Memory& memory, const CpuTable& table,
           const StepwiseChecks& checks)
      : RunnerEngine(memory), versions_(memory.storages.size()) {
    for (Plan& plan : plans) {
      add(std::make_unique<PlanWalk>(std::move(plan), memory, versions_, table, checks, faults(),
                                     next_place()));
    }
  }

  void push(std::size_t storage) override { versions_.note_change(storage); }

 private:
  StorageVersions versions_;
};

}  // namespace

std::unique_ptr<Engine> make_stepwise(std::vector<Plan> plans, const Memory& memory,
                                      const CpuTable& table, const StepwiseChecks& checks) {
  return std::make_unique<Stepwise>(std::move(plans), memory, table, checks);
}

}  // namespace metronome::executor::cpu
