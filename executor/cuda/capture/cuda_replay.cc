// All plans of an executable on one device. A plan's step is a list of tasks, made once:
//
//   load_inputs   copies what was fed from the step's slot to the inputs
//   nodes         in the plan's order, then copies of assigned values
//   store_reads   writes the numbers that users read to the slot, with the number of the step
//
//   made    prepare -> warm up -> capture in each form -> compare a launch with `stepwise`, bit for
//           bit -> time -> keep the fastest; storages are put back
//   step    wait until the slot's last step is over -> send large inputs -> launch -> record the
//           slot's event -> wait for copies from inputs that users fill in place
//   read    a number: look at the slot until the step's number stands there; a tensor: download
//
// A step's slot is its number modulo the slots. The device counts steps itself, so that a captured
// graph, whose addresses never change, finds the slot.
#include "executor/cuda/capture/cuda_replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "executor/cuda/capture/cuda_steps.h"
#include "executor/cuda/capture/launch_watch.h"
#include "executor/cuda/capture/step_forms.h"
#include "executor/cuda/capture/step_times.h"
#include "executor/cuda/program/collective_marks.h"
#include "executor/cuda/program/step_io.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::capture {
namespace {

/// Objects that all plans of one executable share on the device.
struct PlansDevice {
  std::shared_ptr<CudaDriver> driver;
  CudaTable table;
  const Memory& memory;
  CudaOptions options;
  std::vector<CudaStream> streams;  ///< [0] is the one that steps are launched on
  program::DeviceState state;
  program::DeviceConstants constants;
  program::DeviceFaults faults;
  program::InputSlots inputs;
  program::CallerOrder order;

  PlansDevice(std::shared_ptr<CudaDriver> d, const CudaTable& t, const Memory& m,
              const CudaOptions& o, std::size_t nodes, bool watches)
      : driver(std::move(d)),
        table(t),
        memory(m),
        options(o),
        streams(make_streams(*driver, o.streams)),
        state(*driver, streams[0], m),
        constants(*driver, streams[0]),
        faults(*driver, streams[0], m, constants, nodes, watches),
        inputs(*driver, m, state, constants, faults, o.slots, o.non_blocking),
        order(*driver) {}

 private:
  static std::vector<CudaStream> make_streams(CudaDriver& driver, int count) {
    std::vector<CudaStream> streams;
    for (int i = 0; i < std::max(count, 1); ++i) streams.push_back(driver.make_stream());
    return streams;
  }
};

/// The numbers that a step leaves, kept to compare steps bit for bit.
struct StepOutcome {
  std::vector<std::byte> storages;
  std::vector<std::vector<std::byte>> readables;
};

/// Steps whose kernels ran one by one.
struct ExpectedOutcomes {
  StepOutcome uncaptured = {};
  std::optional<StepOutcome> captured = {};  ///< of collectives that are; none: there are none
  std::string failure = {};                  ///< of those
};

/// One plan.
class CudaPlanReplay {
 public:
  CudaPlanReplay(Plan plan, PlansDevice& shared, std::byte* arena, std::size_t base)
      : plan_(std::move(plan)), shared_(shared), base_(base) {
    bases_ = shared.state.bases(plan_.graph);
    bases_.arena = arena;
    for (const std::size_t bytes : plan_.memory.readable_bytes) {
      readable_blocks_.emplace_back(*shared.driver, bytes);
      bases_.readables.push_back(readable_blocks_.back().data());
    }
    reads_.emplace(make_reads());
    tasks_.push_back(shared.inputs.task(plan_.shape));
    for (program::Task& task :
         program::tasks_of(plan_, bases_,
                           {shared.table, shared.driver->properties(), shared.constants,
                            &shared.faults, base, shared.options.tf32})) {
      in_place_ += task.commands.empty();
      tasks_.push_back(std::move(task));
    }
    tasks_.push_back(reads_->task());
    marks_.emplace(*shared.driver, shared.faults.control(), tasks_);
    nodes_ = prepare(*shared.driver, tasks_);
  }
  CudaPlanReplay(const CudaPlanReplay&) = delete;

  const Plan& plan() const { return plan_; }
  const program::ReadSlots& reads() const { return *reads_; }
  void launch() const { form_->launch(); }

  /// One step, and what each of its tasks takes, whatever their guards say: in this step, one after
  /// the other, where the device has records; else alone, before it.
  std::vector<KernelTime> profile() {
    std::vector<std::span<const Command>> work;
    for (const program::Task& task : tasks_) work.emplace_back(task.commands);
    if (const auto recorded = shared_.driver->measure_by_records(work, shared_.streams[0])) {
      std::vector<KernelTime> times;
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        times.push_back(tasks_[i].kernel);
        times.back().microseconds = (*recorded)[i];
        times.back().by = TimingMethod::records;
        if (work[i].empty() || (*recorded)[i] > 0) continue;
        logger().warn("{}: there is no record of it: it is told of with 0 us", times.back().kernel);
      }
      return times;
    }
    for (const std::span<const Command> commands : work) {
      if (std::ranges::none_of(commands, program::collective_of)) continue;
      throw RunError(fmt::format(
          "graph \"{}\": a step with collectives is profiled by the device's own records alone, as "
          "no rank may run one more often than the others, and this device tells of none (CUPTI)",
          plan_.graph.name()));
    }
    if (!times_) {
      timed_reads_.emplace(make_reads());
      times_.emplace(Stopwatch(*shared_.driver, shared_.streams[0]), shared_.state, shared_.faults,
                     tasks_, timed_reads_->task());
    }
    std::vector<KernelTime> times = times_->measure();
    launch();
    return times;
  }

  /// Warms up, captures, accepts, times; keeps the fastest form. Storages are restored after each.
  void choose_form(const Ranks* ranks, PlanReport& report) {
    const std::vector<std::byte> before = shared_.state.snapshot();
    shared_.state.fill_inputs(true);
    // Libraries and kernels load code at their first launch: before any capture.
    warm_up(before);
    auto [forms, notes] =
        make_forms(*shared_.driver, plan_.graph, tasks_, shared_.streams, shared_.options, nodes_);
    if (ranks != nullptr) keep_common(*ranks, forms, notes);
    require_any(forms, notes);
    std::vector<double> times(forms.size());
    if (shared_.driver->computes()) {
      keep_accepted(forms, notes, before, ranks != nullptr);
      if (ranks != nullptr) keep_common(*ranks, forms, notes);
      require_any(forms, notes);
      times = measure(forms, before);
    }
    std::size_t best =
        static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
    if (ranks != nullptr) best = std::stoul(ranks->exchange(std::to_string(best))[0]);
    for (std::size_t i = 0; i < forms.size(); ++i) {
      report.forms.push_back(fmt::format("{}: {:.1f} us a step{}", forms[i].name(), times[i] * 1e3,
                                         i == best ? ", kept" : ""));
    }
    report.forms.insert(report.forms.end(), notes.begin(), notes.end());
    form_.emplace(std::move(forms[best]));
    restore(before);
    shared_.state.fill_inputs(false);
    report.graph_nodes = nodes_;
    report.longest_chain = longest_chain(tasks_);
    report.kernels_in_place = in_place_;
  }

  /// Bytes of a readable, from the device, as the plan's last step left it.
  void download(void* to, std::size_t index) const {
    const ValueId value = plan_.graph.readables()[index].value;
    const std::size_t bytes = plan_.graph.type(value).bytes();
    if (bytes == 0) return;
    shared_.driver->download(to, address_of(plan_, bases_, value), bytes, shared_.streams[0]);
  }
  /// The same, to memory of the device, behind the plan's last step and before its next.
  void copy_to(const Tensor& to, std::size_t index) const {
    const ValueId value = plan_.graph.readables()[index].value;
    if (to.bytes() == 0) return;
    shared_.order.between(to.stream, shared_.streams[0], [&] {
      shared_.driver->upload(to.data, address_of(plan_, bases_, value), to.bytes(),
                             shared_.streams[0]);
    });
  }
  const Type& readable_type(std::size_t index) const {
    return plan_.graph.type(plan_.graph.readables()[index].value);
  }

 private:
  program::ReadSlots make_reads() const {
    std::vector<std::byte*> numbers;
    for (const Readable& r : plan_.graph.readables()) {
      const bool number = r.value.present() && plan_.graph.type(r.value).numel() == 1;
      numbers.push_back(number ? address_of(plan_, bases_, r.value) : nullptr);
    }
    return {*shared_.driver,
            plan_.graph,
            numbers,
            shared_.constants,
            shared_.faults.control(),
            shared_.faults.table(plan_, base_),
            shared_.options.slots};
  }

  void require_any(const std::vector<StepForm>& forms,
                   const std::vector<std::string>& notes) const {
    if (!forms.empty()) return;
    throw RunError(fmt::format("graph \"{}\", {}: no form of the step can be made: {}",
                               plan_.graph.name(), name_of(plan_.report), fmt::join(notes, "; ")));
  }

  void warm_up(std::span<const std::byte> before) {
    run_one_by_one(*shared_.driver, tasks_, shared_.streams[0]);
    restore(before);
  }

  void restore(std::span<const std::byte> before) {
    shared_.state.restore(before);
    shared_.faults.reset();
    reads_->clear();
  }

  StepOutcome outcome(const std::function<const std::byte*(std::size_t)>& address) const {
    StepOutcome result{shared_.state.snapshot(), {}};
    for (std::size_t i = 0; i < plan_.graph.readables().size(); ++i) {
      const ValueId value = plan_.graph.readables()[i].value;
      std::vector<std::byte> bytes(value.present() ? plan_.graph.type(value).bytes() : 0);
      if (!bytes.empty()) {
        shared_.driver->download(bytes.data(), address(i), bytes.size(), shared_.streams[0]);
      }
      result.readables.push_back(std::move(bytes));
    }
    return result;
  }

  /// `graphs`: whether collectives are to be captured, which none of the forms may be able to.
  ExpectedOutcomes stepwise(std::span<const std::byte> before, bool graphs) {
    const CudaSteps steps(*shared_.driver, shared_.streams[0], plan_, shared_.state, shared_.table,
                          shared_.options.tf32);
    const auto of_steps = [&] {
      StepOutcome result = outcome([&](std::size_t i) { return steps.readable(i); });
      restore(before);
      return result;
    };
    ExpectedOutcomes expected;
    steps.run();
    expected.uncaptured = of_steps();
    if (!graphs || !steps.has_collectives()) return expected;
    expected.failure = steps.run_with_captured_collectives();
    expected.captured = of_steps();
    return expected;
  }

  /// Leaves out forms that fail, or give other bits than the kernels one by one, with a note each;
  /// warns where no graph is left of several. Collectives of a graph may add in another order than
  /// uncaptured ones: its bits are those of kernels among which they are captured, each alone.
  /// Throws what the first one threw where none is left, or the driver is strict; of several ranks
  /// also where a form failed, as the others wait in it.
  void keep_accepted(std::vector<StepForm>& forms, std::vector<std::string>& notes,
                     std::span<const std::byte> before, bool of_ranks) {
    const auto is_graph = [](const StepForm& form) { return form.is_graph(); };
    const bool graphs = std::ranges::any_of(forms, is_graph);
    const ExpectedOutcomes expected = stepwise(before, graphs);
    std::exception_ptr first;
    const std::size_t noted = notes.size();
    std::erase_if(forms, [&](const StepForm& form) {
      try {
        const bool captured = expected.captured && form.is_graph();
        // Every rank launches every form.
        accept(form, before, captured ? *expected.captured : expected.uncaptured);
        if (captured && !expected.failure.empty()) throw InternalError(expected.failure);
        return false;
      } catch (const std::exception& error) {
        const bool differs = dynamic_cast<const InternalError*>(&error) != nullptr;
        if (shared_.driver->strict() || (of_ranks && !differs)) throw;
        notes.push_back(fmt::format("{}: failed: {}", form.name(), error.what()));
        if (first == nullptr) first = std::current_exception();
        return true;
      }
    });
    if (forms.empty()) std::rethrow_exception(first);
    if (!graphs || std::ranges::any_of(forms, is_graph)) return;
    logger().warn("graph \"{}\", {}: the step is not captured, as no graph was accepted: {}",
                  plan_.graph.name(), name_of(plan_.report),
                  fmt::join(std::span(notes).subspan(noted), "; "));
  }

  void accept(const StepForm& form, std::span<const std::byte> before,
              const StepOutcome& expected) {
    restore(before);  // the form before may have failed halfway
    launch_first(form);
    const StepOutcome actual = outcome(
        [&](std::size_t i) { return address_of(plan_, bases_, plan_.graph.readables()[i].value); });
    restore(before);
    const auto differs = [&](const std::string& what) {
      throw InternalError(fmt::format("{} gives other bits for {} than the kernels one by one",
                                      form_name(form), what));
    };
    const auto [a, b] =
        std::mismatch(actual.storages.begin(), actual.storages.end(), expected.storages.begin());
    if (a != actual.storages.end()) {
      differs(fmt::format(
          "\"{}\"", shared_.state.path_at(static_cast<std::size_t>(a - actual.storages.begin()))));
    }
    for (std::size_t i = 0; i < actual.readables.size(); ++i) {
      if (actual.readables[i] != expected.readables[i]) {
        differs(fmt::format("\"{}\"", plan_.graph.readables()[i].name));
      }
    }
  }

  void launch_first(const StepForm& form) {
    const LaunchWatch watch(form_name(form));
    form.launch();
    shared_.driver->synchronize(shared_.streams[0]);
  }

  /// "graph "mlp", train: one graph, 2 streams".
  std::string form_name(const StepForm& form) const {
    return fmt::format("graph \"{}\", {}: {}", plan_.graph.name(), name_of(plan_.report),
                       form.name());
  }

  /// Milliseconds a step of each form: the median of interleaved rounds. The host's part belongs to
  /// it: steps are launched as users' are, who read the loss of each before the next.
  std::vector<double> measure(std::span<const StepForm> forms, std::span<const std::byte> before) {
    // Rounds, whose median counts, and steps of a form in each. More of either make compiling
    // longer; with fewer a disturbance decides sooner.
    constexpr int kRounds = 5, kSteps = 5;
    const Stopwatch watch(*shared_.driver, shared_.streams[0]);
    std::vector<std::vector<double>> times(forms.size());
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < forms.size(); ++i) {
        const double ms = watch.milliseconds([&] {
          for (int step = 0; step < kSteps; ++step) {
            forms[i].launch();
            shared_.driver->synchronize(shared_.streams[0]);
          }
        });
        times[i].push_back(ms / kSteps);
      }
    }
    restore(before);
    std::vector<double> medians;
    for (std::vector<double>& t : times) {
      std::nth_element(t.begin(), t.begin() + kRounds / 2, t.end());
      medians.push_back(t[kRounds / 2]);
    }
    return medians;
  }

  Plan plan_;
  PlansDevice& shared_;
  std::size_t base_;  ///< of the plan's order, among all plans'
  Bases bases_;
  std::vector<program::DeviceBlock> readable_blocks_;
  std::optional<program::ReadSlots> reads_;
  std::vector<program::Task> tasks_;
  std::optional<program::CollectiveMarks> marks_;
  int nodes_ = 0;
  std::size_t in_place_ = 0;  // nodes without a command
  std::optional<StepForm> form_;
  // Made by the first profile.
  std::optional<program::ReadSlots> timed_reads_;  ///< whose numbers nobody reads
  std::optional<StepTimes> times_;
};

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
  /// One behind the other: neither records nor times of kernels alone say when they began.
  std::vector<KernelRun> profile(PlanId plan) override {
    std::vector<KernelTime> times;
    step(plan, [&] { times = replays_[plan.index]->profile(); });
    std::vector<KernelRun> runs;
    double begin = 0;
    for (KernelTime& time : times) {
      const double us = time.microseconds;
      runs.push_back({std::move(time), begin});
      begin += us;
    }
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
