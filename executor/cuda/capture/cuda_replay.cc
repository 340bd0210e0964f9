// All plans of an executable on one device. A plan's step is a list of tasks, made once:
//
//   load_inputs   copies what was fed from the step's slot to the inputs
//   nodes         in the plan's order, then copies of assigned values
//   store_reads   writes the numbers that users read to the slot, with the number of the step
//
//   made    each plan as a step, in the form that is fastest (plan_replay.h)
//   step    wait until the slot's last step is over -> send large inputs -> launch -> record the
//           slot's event -> wait for copies from inputs that users fill in place
//   read    a number: look at the slot until the step's number stands there; a tensor: download
//
// A step's slot is its number modulo the slots. The device counts steps itself, so that a captured
// graph, whose addresses never change, finds the slot.
#include "executor/cuda/capture/cuda_replay.h"

#include <fmt/format.h>

#include <utility>

#include "executor/cuda/capture/launch_watch.h"
#include "executor/cuda/capture/plan_replay.h"
#include "executor/cuda/program/slots.h"
#include "graph/ir/error.h"

namespace metronome::executor::capture {
namespace {

class CudaReplay final : public Engine {
 public:
  CudaReplay(std::vector<Plan> plans, const Memory& memory, std::shared_ptr<CudaDriver> driver,
             const CudaTable& table, const CudaOptions& options, bool watches, const Ranks* ranks,
             Report& report)
      : shared_(std::move(driver), table, memory, options, node_count(plans), watches),
        arena_(*shared_.driver, report.arena_bytes),
        slots_(options.slots, [this](std::int64_t step) { wait_until_over(step); }),
        limited_(launch_limit().has_value()) {
    for (int i = 0; i < options.slots; ++i) over_.push_back(shared_.driver->make_event());
    std::size_t nodes = 0;
    for (Plan& plan : plans) {
      replays_.push_back(
          std::make_unique<CudaPlanReplay>(std::move(plan), shared_, arena_.data(), nodes));
      nodes += replays_.back()->plan().graph.nodes().size();
    }
    for (std::size_t i = 0; i < replays_.size(); ++i) {
      replays_[i]->choose_form(ranks, report.plans[i]);
    }
    last_step_.resize(replays_.size(), -1);
    ran_.resize(static_cast<std::size_t>(options.slots));
    report.device = shared_.driver->properties().name;
    report.device_bytes_other = shared_.driver->other_bytes();
    report.device_bytes_io = shared_.inputs.device_bytes() + shared_.constants.bytes();
    report.mapped_bytes = shared_.inputs.mapped_bytes();
  }

  const Plan* plan(PlanId plan) const override { return &of(plan).plan(); }
  void run(PlanId plan) override {
    step(plan, [&] { of(plan).launch(); });
  }

  bool profiles() const override { return true; }
  std::vector<KernelRun> profile(PlanId plan) override {
    std::vector<KernelRun> runs;
    step(plan, [&] { runs = replays_[plan.index]->profile(); });
    return runs;
  }
  std::int64_t steps() const override { return slots_.next(); }

  void begin_feeds() override {
    if (std::exchange(begun_, false)) shared_.inputs.forget();
  }
  std::byte* feed(std::size_t index) override {
    const InputMemory& input = shared_.memory.inputs[index];
    return input.handed_out ? input.block.data() : shared_.inputs.feed(begin_step(), index);
  }
  void advance_feed(std::size_t index, std::size_t bytes) override {
    if (!shared_.memory.inputs[index].handed_out)
      shared_.inputs.advance_feed(begin_step(), index, bytes);
  }
  bool feed_from(std::size_t index, const std::byte* from) override {
    if (shared_.memory.inputs[index].handed_out) return false;
    return shared_.inputs.copy_from(begin_step(), index, from);
  }
  std::shared_ptr<void>* keeper(std::size_t index) override {
    return shared_.options.non_blocking ? &shared_.inputs.keeper(begin_step(), index) : nullptr;
  }
  Device device() const override { return cuda_device(shared_.driver->index()); }
  bool reaches(const std::byte* memory) const override {
    return shared_.driver->is_device_memory(memory);
  }
  void feed_from_device(std::size_t index, const Tensor& from) override {
    const InputMemory& input = shared_.memory.inputs[index];
    if (from.bytes() == 0) return;
    const int slot = begin_step();
    if (!input.handed_out) return shared_.inputs.copy_from_device(slot, index, from);
    shared_.order.between(from.stream, shared_.streams[0], [&] {
      shared_.driver->download(input.block.data(), from.data, from.bytes(), shared_.streams[0]);
    });
  }
  void read_into(PlanId plan, std::size_t index, const Tensor& to) const override {
    of(plan).copy_to(to, index);
  }
  Block block_to_fill(std::size_t index) override {
    const std::size_t bytes = shared_.memory.inputs[index].type.bytes();
    if (bytes <= program::InputSlots::kSmall) return {};  // the host copies it to a slot
    return {shared_.driver->page_locked_memory(bytes), bytes};
  }

  Tensor readable(PlanId plan, std::size_t index) const override {
    slots_.finish();
    const Type& type = of(plan).readable_type(index);
    const Block block = Block::unset(type.bytes());
    of(plan).download(block.data(), index);
    return tensor_in({&block}, type);
  }

  double scalar(PlanId plan, std::size_t index) const override {
    const std::int64_t step = last_step_[plan.index];
    if (step >= slots_.next() - shared_.options.slots) return wait_for_number(plan, index, step);
    // Steps of other plans have taken its slot since; its own memory holds it still.
    slots_.finish();
    alignas(8) std::byte bytes[8];
    of(plan).download(bytes, index);
    return number_at(bytes, of(plan).readable_type(index).element);
  }

  double scalar(PlanId plan, std::size_t index, std::int64_t step) const override {
    require_readable(step);
    return wait_for_number(plan, index, step);
  }

  void fetch_input(std::size_t index) const override {
    slots_.finish();
    shared_.state.fetch_input(index);
  }
  void fetch(std::size_t storage) const override {
    slots_.finish();
    shared_.state.fetch(storage);
  }
  void push(std::size_t storage) override {
    slots_.finish();
    shared_.state.push(storage);
    shared_.faults.examine_storage(storage);
  }

  void settle() const override { slots_.finish(); }
  bool has_fault() const override { return kept_fault().has_value(); }
  std::optional<std::string> fault() const override {
    const auto found = kept_fault();
    if (!found) return std::nullopt;
    std::vector<const Plan*> plans;
    for (const auto& replay : replays_) plans.push_back(&replay->plan());
    return describe(*found, plans, shared_.memory);
  }

 private:
  const CudaPlanReplay& of(PlanId plan) const { return *replays_[plan.index]; }

  /// Returns the kept fault, as far as steps that are over have written it. Waits for nothing.
  std::optional<FaultSlot::Fault> kept_fault() const {
    for (std::size_t slot = 0; slot < ran_.size(); ++slot) {
      if (!ran_[slot].present()) continue;
      if (const auto found = of(ran_[slot]).reads().fault(static_cast<int>(slot))) return found;
    }
    return std::nullopt;
  }

  template <class Launch>
  void step(PlanId plan, Launch launch) {
    const int slot = begin_step();
    const std::int64_t number = slots_.next();
    for (const std::size_t i : shared_.memory.inputs_of[of(plan).plan().shape]) {
      const InputMemory& input = shared_.memory.inputs[i];
      if (!input.handed_out || input.type.bytes() == 0) continue;
      shared_.inputs.take(slot, i, input.block.data());
    }
    name_if_lost(number, plan, [&] {
      shared_.inputs.send(slot, shared_.streams[0]);
      launch();
      shared_.driver->record(over_[slot], shared_.streams[0]);
    });
    slots_.count_launch();
    begun_ = false;
    last_step_[plan.index] = number;
    ran_[slot] = plan;
    shared_.inputs.wait_until_taken(slot);
  }

  /// The slot of the next step, waited for and cleared once.
  int begin_step() {
    const int slot = slots_.acquire();
    if (!begun_) shared_.inputs.clear(slot);
    begun_ = true;
    return slot;
  }

  void require_readable(std::int64_t step) const {
    if (step >= 0 && step < slots_.next() && step >= slots_.next() - slots_.count()) return;
    slots_.readable(step);  // says what is wrong
  }

  /// "graph "mlp", train: step 7".
  std::string step_name(std::int64_t step, PlanId plan) const {
    const Plan& run = of(plan).plan();
    return fmt::format("graph \"{}\", {}: step {}", run.graph.name(), name_of(run.report), step);
  }
  std::string step_name(std::int64_t step) const {
    return step_name(step, ran_[slots_.slot_of(step)]);
  }

  /// Runs f; an error that the device is lost names the step.
  template <class F>
  void name_if_lost(std::int64_t step, PlanId plan, F f) const {
    try {
      f();
    } catch (const LostDevice& error) {
      throw LostDevice(fmt::format("{}: {}", step_name(step, plan), error.what()));
    }
  }

  /// The driver's own wait has no limit.
  void wait_until_over(std::int64_t step) const {
    const CudaEvent event = over_[slots_.slot_of(step)];
    StepWatch watch([&] { return step_name(step); });
    name_if_lost(step, ran_[slots_.slot_of(step)], [&] {
      while (limited_ && !shared_.driver->is_done(event)) watch.look();
      shared_.driver->synchronize(event);
    });
  }

  /// Waits for one number of one step, by looking where the device will write it: shorter than an
  /// event.
  double wait_for_number(PlanId plan, std::size_t index, std::int64_t step) const {
    if (!shared_.driver->computes()) {
      throw RunError("nothing can be read: the target null computes nothing");
    }
    const int slot = slots_.slot_of(step);
    alignas(8) std::byte bytes[8];
    // Looks between two questions to the driver, which take longer. With more looks it is found out
    // later that a step is over without its number.
    constexpr int kLooks = 256;
    StepWatch watch([&] { return step_name(step); });
    for (int look = 0; !of(plan).reads().try_read(index, slot, step, bytes); ++look) {
      if (look % kLooks != kLooks - 1) continue;
      watch.look();
      bool over = false;
      name_if_lost(step, plan, [&] { over = shared_.driver->is_done(over_[slot]); });
      if (!over) continue;
      if (of(plan).reads().try_read(index, slot, step, bytes)) break;
      throw InternalError(fmt::format("step {} is over, but wrote no \"{}\"", step,
                                      of(plan).plan().graph.readables()[index].name));
    }
    shared_.driver->check_libraries();  // numbers of a step that was broken off are none
    return number_at(bytes, of(plan).readable_type(index).element);
  }

  mutable PlansDevice shared_;
  program::DeviceBlock arena_;
  std::vector<CudaEvent> over_;  ///< [slot]
  mutable program::Slots slots_;
  const bool limited_;  ///< METRONOME_LAUNCH_LIMIT is set
  bool begun_ = false;
  std::vector<std::unique_ptr<CudaPlanReplay>> replays_;  ///< [plan]
  std::vector<std::int64_t> last_step_;                   ///< [plan]
  std::vector<PlanId> ran_;                               ///< [slot] in its last step
};

}  // namespace

std::unique_ptr<Engine> make_cuda_replay(std::vector<Plan> plans, const Memory& memory,
                                         std::shared_ptr<CudaDriver> driver, const CudaTable& table,
                                         const CudaOptions& options, bool watches,
                                         const Ranks* ranks, Report& report) {
  return std::make_unique<CudaReplay>(std::move(plans), memory, std::move(driver), table, options,
                                      watches, ranks, report);
}

}  // namespace metronome::executor::capture
