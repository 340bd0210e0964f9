// A plan becomes arrays that a step only walks through; addresses, kernels and arguments are fixed
// when it is bound:
//
//   steps_     s0 s1 | s2 s3 s4 | s5        {function, arguments}, in the schedule's order
//   runs_      always | guard g | always    neighbours of one guard are skipped together
//
// The last steps copy assigned values to storages, unless they were made in place. All plans share
// one arena, as large as the largest of them needs. Checks put steps of their own behind each node:
// `watch` looks at what it made, `poison` fills the arena's dead bytes with NaN. A kernel that
// throws ends the step; BrokenStep says whether a storage was written before.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "executor/cpu/binding.h"
#include "executor/cpu/cpu_engine.h"
#include "executor/cpu/cpu_watch.h"
#include "executor/engine/addresses.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/runner_engine.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome::executor::cpu {
namespace {

/// Fills what is dead with a pattern that is NaN in f32 and f64.
struct Poison {
  std::byte* arena;
  std::vector<std::pair<std::size_t, std::size_t>> dead;  // begin, end
  void operator()() const {
    for (const auto& [begin, end] : dead) std::memset(arena + begin, 0xFF, end - begin);
  }
};

struct CopyBytes {
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
  void operator()() const { std::memcpy(to, from, bytes); }
};

/// One plan with all that is fixed at bind time.
class CpuPlanReplay {
 public:
  CpuPlanReplay(Plan plan, const Memory& memory, const StorageVersions& versions, std::byte* arena,
                const CpuTable& table, const CpuChecks& checks, FaultSlot& faults, std::size_t base)
      : plan_(std::move(plan)), arena_(arena) {
    make_readable_blocks();
    bases_.arena = arena;
    const std::vector<std::size_t> storages = memory.storages_of(plan_.graph);
    for (const std::size_t storage : storages) {
      bases_.storages.push_back(memory.storage_blocks[storage].data());
    }
    bases_.input = [&memory](const Input& input) { return memory.input(input); };
    for (const Block& block : readable_blocks_) bases_.readables.push_back(block.data());
    const Locator locate = [this](ValueId id) { return address(id); };
    const BoundMemory bound{locate, versions, storages};
    std::vector<Poison> poisons;
    if (checks.poison) poisons = poison_after_each();
    std::optional<CpuWatch> watch;
    if (checks.watch)
      add(kernel_of("watch"), watch.emplace(plan_, memory, locate, faults, base).begin());
    for (std::size_t step = 0; step < plan_.schedule.order.size(); ++step) {
      const std::int32_t node = plan_.schedule.order[step];
      if (!has_kernel(plan_.graph, plan_.graph.nodes()[node])) continue;
      std::byte* scratch =
          plan_.scratch_bytes[node] > 0 ? arena_ + plan_.memory.scratch_offsets[node] : nullptr;
      const ValueId guard = guard_of(plan_, node);
      const bool* runs_if =
          guard.present() ? reinterpret_cast<const bool*>(address(guard)) : nullptr;
      // Views run no kernel: such a value is made in place.
      const bool writes = std::ranges::any_of(plan_.memory.places[node], [](const plan::Place& p) {
        return p.in == plan::Place::Kind::storage;
      });
      if (writes) first_write_ = std::min(first_write_, steps_.size());
      add(kernel_of(plan_.graph, plan_.graph.nodes()[node]),
          bind_node(table, plan_, node, bound, scratch,
                    {&faults, fault_place(base + node, FaultKind::lookup)}),
          runs_if);
      if (watch) {
        if (CpuKernel look = watch->after(node)) add(kernel_of("watch"), std::move(look), runs_if);
      }
      if (checks.poison) add(kernel_of("poison"), CpuKernel(poisons[step]));
    }
    const auto assignments = plan_.graph.assignments();
    for (std::size_t i = 0; i < assignments.size(); ++i) {
      if (plan_.schedule.in_place[i]) continue;
      const std::size_t bytes = plan_.graph.type(assignments[i].value).bytes();
      add(kernel_of_assignment(plan_.graph, assignments[i]),
          CpuKernel(CopyBytes{address(assignments[i].value),
                              bases_.storages[assignments[i].storage.index], bytes}));
    }
  }

  void run() const {
    std::size_t i = 0;
    try {
      for (const GuardedRun& run : runs_) {
        if (run.guard != nullptr && !*run.guard) continue;
        for (i = run.begin; i < run.end; ++i) steps_[i].function(steps_[i].arguments);
      }
    } catch (const std::exception& failure) {
      break_off(i, failure);
    }
  }

  /// Runs a step and times each kernel.
  std::vector<KernelRun> profile() const {
    using Clock = std::chrono::steady_clock;
    struct TimedStep {
      std::size_t step;
      Clock::time_point begin, end;
    };
    std::vector<TimedStep> timed;  // what it tells of them is copied behind the last
    timed.reserve(steps_.size());
    std::size_t i = 0;
    try {
      for (const GuardedRun& run : runs_) {
        if (run.guard != nullptr && !*run.guard) continue;
        for (i = run.begin; i < run.end; ++i) {
          const auto begin = Clock::now();
          steps_[i].function(steps_[i].arguments);
          timed.push_back({i, begin, Clock::now()});
        }
      }
    } catch (const std::exception& failure) {
      break_off(i, failure);
    }
    using Microseconds = std::chrono::duration<double, std::micro>;
    std::vector<KernelRun> runs;
    runs.reserve(timed.size());
    for (const TimedStep& each : timed) {
      runs.push_back({timed_[each.step], Microseconds(each.begin - timed[0].begin).count()});
      runs.back().kernel.microseconds = Microseconds(each.end - each.begin).count();
    }
    return runs;
  }

  const Plan& plan() const { return plan_; }
  const Type& readable_type(std::size_t index) const {
    return plan_.graph.type(plan_.graph.readables()[index].value);
  }
  BlockPlace readable(std::size_t index) const {
    const ValueId value = plan_.graph.readables()[index].value;
    const plan::Place& place = plan_.memory.places[value.node][value.output];
    if (place.in != plan::Place::Kind::readable)
      throw InternalError("a readable value in the arena");
    return {&readable_blocks_[place.index], place.offset};
  }

 private:
  struct Step {
    CpuKernel::Function function;
    const void* arguments;
  };

  [[noreturn]] void break_off(std::size_t step, const std::exception& failure) const {
    throw BrokenStep(timed_[step].kernel, failure, step >= first_write_);
  }

  /// Steps that run together or not at all.
  struct GuardedRun {
    const bool* guard;  ///< null: always
    std::size_t begin;
    std::size_t end;
  };

  void add(KernelTime timed, CpuKernel kernel, const bool* guard = nullptr) {
    if (runs_.empty() || runs_.back().guard != guard) {
      runs_.push_back({guard, steps_.size(), steps_.size()});
    }
    ++runs_.back().end;
    steps_.push_back({kernel.function(), kernel.arguments()});
    kernels_.push_back(std::move(kernel));
    timed_.push_back(std::move(timed));
  }

  /// One block for each root that readable values lie in, named by the first readable of it.
  void make_readable_blocks() {
    for (const std::size_t bytes : plan_.memory.readable_bytes) {
      readable_blocks_.push_back(bytes > 0 ? Block(bytes) : Block());
    }
  }

  std::byte* address(ValueId id) const { return address_of(plan_, bases_, id); }

  /// For each step of the order the arena bytes that hold no live value after it.
  std::vector<Poison> poison_after_each() const {
    const ir::Graph& graph = plan_.graph;
    const auto& order = plan_.schedule.order;
    std::map<ValueId, std::size_t> last;  // by root
    const auto root = [&](ValueId id) {
      while (const auto view = view_of(graph, id)) id = view->of;
      return id;
    };
    for (std::size_t step = 0; step < order.size(); ++step) {
      const Node& node = graph.nodes()[order[step]];
      for (const ValueId id : node.inputs) last[root(id)] = step;
      if (const ValueId guard = guard_of(plan_, order[step]); guard.present()) {
        last[root(guard)] = step;
      }
      for (std::size_t k = 0; k < node.types.size(); ++k) {
        const ValueId made = root({order[step], static_cast<std::int32_t>(k)});
        last[made] = std::max(last[made], step);
      }
    }
    for (const Assignment& a : graph.assignments()) last[root(a.value)] = order.size();
    std::vector<Poison> poisons;
    std::set<ValueId> live;
    for (std::size_t step = 0; step < order.size(); ++step) {
      const Node& node = graph.nodes()[order[step]];
      for (std::size_t k = 0; k < node.types.size(); ++k) {
        live.insert(root({order[step], static_cast<std::int32_t>(k)}));
      }
      std::erase_if(live, [&](ValueId id) { return last[id] <= step; });
      std::vector<std::pair<std::size_t, std::size_t>> held;
      for (const ValueId id : live) {
        const plan::Place& place = plan_.memory.places[id.node][id.output];
        if (place.in == plan::Place::Kind::arena)
          held.push_back({place.offset, place.offset + graph.type(id).bytes()});
      }
      std::sort(held.begin(), held.end());
      Poison poison{arena_, {}};
      std::size_t at = 0;
      for (const auto& [begin, end] : held) {
        if (begin > at) poison.dead.push_back({at, begin});
        at = std::max(at, end);
      }
      if (at < plan_.memory.arena_bytes) poison.dead.push_back({at, plan_.memory.arena_bytes});
      poisons.push_back(std::move(poison));
    }
    return poisons;
  }

  Plan plan_;
  std::byte* arena_;
  std::vector<Block> readable_blocks_;
  Bases bases_;
  std::vector<Step> steps_;
  std::vector<GuardedRun> runs_;
  std::vector<CpuKernel> kernels_;  // own what the steps point to
  std::vector<KernelTime> timed_;   // of the steps
  std::size_t first_write_ = std::numeric_limits<std::size_t>::max();  // step that writes a storage
};

class CpuReplay final : public RunnerEngine<CpuPlanReplay> {
 public:
  CpuReplay(std::vector<Plan> plans, const Memory& memory, const CpuTable& table,
            const CpuChecks& checks)
      : RunnerEngine(memory), versions_(memory.storages.size()) {
    std::size_t bytes = 0;
    for (const Plan& plan : plans) bytes = std::max(bytes, plan.memory.arena_bytes);
    arena_ = Block(bytes);
    for (Plan& plan : plans) {
      add(std::make_unique<CpuPlanReplay>(std::move(plan), memory, versions_, arena_.data(), table,
                                          checks, faults(), next_place()));
    }
  }

  void push(std::size_t storage) override { versions_.note_change(storage); }
  bool profiles() const override { return true; }
  std::vector<KernelRun> profile(PlanId plan) override {
    auto runs = of(plan).profile();
    end_step();
    return runs;
  }

 private:
  StorageVersions versions_;
  Block arena_;
};

}  // namespace

std::unique_ptr<Engine> make_cpu_replay(std::vector<Plan> plans, const Memory& memory,
                                        const CpuTable& table, const CpuChecks& checks) {
  return std::make_unique<CpuReplay>(std::move(plans), memory, table, checks);
}

}  // namespace metronome::executor::cpu
