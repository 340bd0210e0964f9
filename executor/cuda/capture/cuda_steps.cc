// `CudaSteps` places each value of a plan in one block of device memory, none over another. It
// binds the nodes' tasks to these places and enqueues them in the schedule's order, on one stream.
// The copies of assigned values come last. An observer sees a node's operands before it runs, and
// its results after, in host copies that go back to the device, as it may write to them.
//
//   CudaWalk       a plan: its steps, then one kernel that finds the step's fault
//   CudaStepwise   the engine: uploads the inputs, walks, downloads what is read
#include "executor/cuda/capture/cuda_steps.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "executor/cuda/capture/captured_collectives.h"
#include "executor/cuda/program/caller_order.h"
#include "executor/cuda/program/step_io.h"
#include "executor/engine/block.h"
#include "executor/engine/plan_nodes.h"
#include "graph/ir/structural.h"

namespace metronome::executor::capture {
namespace {

/// Copies of device memory for who looks at it.
class HostCopies {
 public:
  HostCopies(CudaDriver& driver, CudaStream stream) : driver_(driver), stream_(stream) {}

  /// Returns a copy of the bytes that lie at `place` now. Operands that are one value are one copy.
  Tensor of(std::byte* place, const Type& type) {
    const std::size_t bytes = type.bytes();
    if (place == nullptr || bytes == 0) return contiguous_tensor({}, nullptr, type);
    const auto [copy, added] = copies_.try_emplace({place, bytes});
    if (added) {
      copy->second = Block::unset(bytes);
      driver_.download(copy->second.data(), place, bytes, stream_);
    }
    return contiguous_tensor({}, copy->second.data(), type);
  }
  void put_back() const {
    for (const auto& [place, copy] : copies_) {
      driver_.upload(place.first, copy.data(), copy.bytes(), stream_);
    }
    driver_.synchronize(stream_);
  }

 private:
  CudaDriver& driver_;
  CudaStream stream_;
  std::map<std::pair<std::byte*, std::size_t>, Block> copies_;
};

}  // namespace

CudaSteps::CudaSteps(CudaDriver& driver, CudaStream stream, const Plan& plan,
                     const program::DeviceState& state, const CudaTable& table, bool tf32,
                     const program::DeviceFaults* faults, std::size_t base)
    : driver_(driver),
      stream_(stream),
      plan_(plan),
      bases_(state.bases(plan.graph)),
      constants_(driver, stream) {
  const ir::Graph& graph = plan.graph;
  std::size_t end = 0;
  const auto take = [&end](std::size_t bytes) {
    const std::size_t begin = end;
    end += program::device_aligned(std::max<std::size_t>(bytes, 1));
    return begin;
  };
  std::vector<std::vector<std::size_t>> offsets(graph.nodes().size());
  std::vector<std::size_t> scratch_offsets(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!has_kernel(graph, node)) continue;
    for (const Type& type : node.types) offsets[i].push_back(take(type.bytes()));
    scratch_offsets[i] = take(plan.scratch_bytes[i]);
  }
  values_ = program::DeviceBlock(driver, end);
  places_.resize(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (std::size_t k = 0; k < offsets[i].size(); ++k) {
      // A saved output that nothing reads is absent here too: the kernel takes the same path.
      const bool absent = plan.memory.places[i][k].in == plan::Place::Kind::none;
      places_[i].push_back(absent ? nullptr : values_.data() + offsets[i][k]);
    }
  }
  const Locator locate = [this](ValueId id) { return address(id); };
  const program::CudaBinding binding{table, driver.properties(), constants_, faults, base, tf32};
  for (std::size_t step = 0; step < plan.schedule.order.size(); ++step) {
    const std::int32_t node = plan.schedule.order[step];
    if (!has_kernel(graph, graph.nodes()[node])) continue;
    std::byte* scratch =
        plan.scratch_bytes[node] > 0 ? values_.data() + scratch_offsets[node] : nullptr;
    tasks_.push_back(program::task_of(plan, step, locate, scratch, binding));
    nodes_.push_back(node);
  }
  for (const Assignment& a : graph.assignments()) {
    const std::size_t bytes = graph.type(a.value).bytes();
    if (bytes == 0) continue;
    tasks_.push_back({kernel_of_assignment(graph, a),
                      {CopyCommand{bases_.storages[a.storage.index], address(a.value), bytes}},
                      {}});
    nodes_.push_back(-1);
  }
  marks_.emplace(driver, faults == nullptr ? nullptr : faults->control(), tasks_);
  prepare(driver, tasks_);
}

void CudaSteps::run(Observer* observer) const {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const bool shown =
        observer != nullptr && nodes_[i] >= 0 && !skips(plan_.graph.nodes()[nodes_[i]]);
    shown ? show(i, *observer) : enqueue(tasks_[i]);
  }
  driver_.synchronize(stream_);
}

std::string CudaSteps::run_with_captured_collectives() const {
  CapturedCollectives collectives(driver_, stream_);
  for (const program::Task& task : tasks_) {
    for (const Command& command : task.commands) {
      program::collective_of(command) == nullptr ? driver_.enqueue(command, stream_)
                                                 : collectives.run(command);
    }
  }
  driver_.synchronize(stream_);
  return collectives.failure();
}

bool CudaSteps::has_collectives() const {
  return std::ranges::any_of(tasks_, [](const program::Task& task) {
    return std::ranges::any_of(task.commands, program::collective_of);
  });
}

void CudaSteps::enqueue(const program::Task& task) const {
  for (const Command& command : task.commands) driver_.enqueue(command, stream_);
}

bool CudaSteps::skips(const Node& node) const {
  if (!node.guard.present()) return false;
  bool runs = false;
  driver_.download(&runs, address(node.guard), sizeof(runs), stream_);
  return !runs;
}

void CudaSteps::show(std::size_t task, Observer& observer) const {
  ObservedNode seen{.graph = plan_.graph, .index = nodes_[task], .operands = {}, .results = {}};
  const Node& node = seen.node();
  HostCopies operands(driver_, stream_), results(driver_, stream_);
  for (const ValueId id : node.inputs) {
    seen.operands.push_back(operands.of(address(id), plan_.graph.type(id)));
  }
  observer.before(seen);
  operands.put_back();
  enqueue(tasks_[task]);
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    std::byte* place = address({seen.index, static_cast<std::int32_t>(k)});
    seen.results.push_back(results.of(place, node.types[k]));
  }
  observer.after(seen);
  results.put_back();
}

std::byte* CudaSteps::readable(std::size_t index) const {
  return address(plan_.graph.readables()[index].value);
}

std::byte* CudaSteps::address(ValueId value) const {
  const Node& node = plan_.graph.node(value);
  if (const auto view = view_of(plan_.graph, value)) return address(view->of) + view->offset;
  if (const Input* input = node.op->as<Input>()) return bases_.input(*input);
  if (const Read* read = node.op->as<Read>()) return bases_.storages[read->storage.index];
  return places_[value.node][value.output];
}

namespace {

/// A plan and its steps.
class CudaWalk {
 public:
  CudaWalk(CudaDriver& driver, CudaStream stream, Plan plan, program::DeviceState& state,
           const CudaTable& table, bool tf32, program::DeviceConstants& constants,
           const program::DeviceFaults& faults, std::size_t base)
      : driver_(driver),
        stream_(stream),
        plan_(std::move(plan)),
        steps_(driver, stream, plan_, state, table, tf32, &faults, base),
        end_(driver, plan_.graph, {}, constants, faults.control(), faults.table(plan_, base), 1),
        last_({end_.task()}) {
    prepare(driver, last_);
  }

  void run(Observer* observer) const {
    steps_.run(observer);
    for (const Command& command : last_[0].commands) driver_.enqueue(command, stream_);
    driver_.synchronize(stream_);
  }
  const Plan& plan() const { return plan_; }
  std::size_t shape() const { return plan_.shape; }
  std::optional<FaultSlot::Fault> fault() const { return end_.fault(0); }
  const Type& readable_type(std::size_t index) const {
    return plan_.graph.type(plan_.graph.readables()[index].value);
  }
  void download(void* to, std::size_t index) const {
    const std::size_t bytes = readable_type(index).bytes();
    if (bytes > 0) driver_.download(to, steps_.readable(index), bytes, stream_);
  }
  void copy_to(const Tensor& to, std::size_t index) const {
    if (to.bytes() > 0) driver_.upload(to.data, steps_.readable(index), to.bytes(), stream_);
  }

 private:
  CudaDriver& driver_;
  CudaStream stream_;
  Plan plan_;
  CudaSteps steps_;
  program::ReadSlots end_;  ///< of no numbers: it ends a step, finds its fault and tells the host
  std::vector<program::Task> last_;
};

class CudaStepwise final : public Engine {
 public:
  CudaStepwise(std::vector<Plan> plans, const Memory& memory, std::shared_ptr<CudaDriver> driver,
               const CudaTable& table, const CudaOptions& options, bool watches,
               std::shared_ptr<Observer> observer)
      : driver_(std::move(driver)),
        memory_(memory),
        observer_(std::move(observer)),
        stream_(driver_->make_stream()),
        order_(*driver_),
        state_(*driver_, stream_, memory),
        constants_(*driver_, stream_),
        faults_(*driver_, stream_, memory, constants_, node_count(plans), watches) {
    std::size_t base = 0;
    for (Plan& plan : plans) {
      const std::size_t nodes = plan.graph.nodes().size();
      walks_.push_back(std::make_unique<CudaWalk>(*driver_, stream_, std::move(plan), state_, table,
                                                  options.tf32, constants_, faults_, base));
      base += nodes;
    }
  }

  const Plan* plan(PlanId plan) const override { return &of(plan).plan(); }
  void run(PlanId plan) override {
    for (const std::size_t i : memory_.inputs_of[of(plan).shape()]) {
      const InputMemory& input = memory_.inputs[i];
      if (input.type.bytes() == 0) continue;
      driver_->upload(state_.input(i), input.block.data(), input.type.bytes(), stream_);
      faults_.examine_input(i);
    }
    of(plan).run(observer_.get());
    if (!found_) found_ = of(plan).fault();
    ++steps_;
  }
  Tensor readable(PlanId plan, std::size_t index) const override {
    const Type& type = of(plan).readable_type(index);
    const Block block = Block::unset(type.bytes());
    of(plan).download(block.data(), index);
    return tensor_in({&block}, type);
  }
  double scalar(PlanId plan, std::size_t index) const override {
    alignas(8) std::byte bytes[8];
    of(plan).download(bytes, index);
    return number_at(bytes, of(plan).readable_type(index).element);
  }
  std::int64_t steps() const override { return steps_; }
  std::byte* feed(std::size_t index) override { return memory_.inputs[index].block.data(); }
  Device device() const override { return cuda_device(driver_->index()); }
  bool reaches(const std::byte* memory) const override { return driver_->is_device_memory(memory); }
  void feed_from_device(std::size_t index, const Tensor& from) override {
    if (from.bytes() == 0) return;
    order_.between(from.stream, stream_,
                   [&] { driver_->download(feed(index), from.data, from.bytes(), stream_); });
  }
  void read_into(PlanId plan, std::size_t index, const Tensor& to) const override {
    order_.between(to.stream, stream_, [&] { of(plan).copy_to(to, index); });
  }
  void fetch(std::size_t storage) const override { state_.fetch(storage); }
  void push(std::size_t storage) override {
    state_.push(storage);
    faults_.examine_storage(storage);
  }
  bool has_fault() const override { return found_.has_value(); }
  std::optional<std::string> fault() const override {
    if (!found_) return std::nullopt;
    std::vector<const Plan*> plans;
    for (const auto& walk : walks_) plans.push_back(&walk->plan());
    return describe(*found_, plans, memory_);
  }

 private:
  const CudaWalk& of(PlanId plan) const { return *walks_[plan.index]; }
  std::shared_ptr<CudaDriver> driver_;
  const Memory& memory_;
  std::shared_ptr<Observer> observer_;
  CudaStream stream_;
  program::CallerOrder order_;
  program::DeviceState state_;
  program::DeviceConstants constants_;
  program::DeviceFaults faults_;
  std::vector<std::unique_ptr<CudaWalk>> walks_;
  std::optional<FaultSlot::Fault> found_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Engine> make_cuda_stepwise(std::vector<Plan> plans, const Memory& memory,
                                           std::shared_ptr<CudaDriver> driver,
                                           const CudaTable& table, const CudaOptions& options,
                                           bool watches, std::shared_ptr<Observer> observer) {
  return std::make_unique<CudaStepwise>(std::move(plans), memory, std::move(driver), table, options,
                                        watches, std::move(observer));
}

}  // namespace metronome::executor::capture
