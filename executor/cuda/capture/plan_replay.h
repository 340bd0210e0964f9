// One plan as a step of a device: its tasks, the form in which they are launched, its numbers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/capture/captured.h"
#include "executor/cuda/capture/step_times.h"
#include "executor/cuda/program/caller_order.h"
#include "executor/cuda/program/collective_marks.h"
#include "executor/cuda/program/device_faults.h"
#include "executor/cuda/program/device_state.h"
#include "executor/cuda/program/step_io.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "executor/engine/profile.h"
#include "executor/engine/ranks.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "ops/cuda/table.h"

namespace metronome::executor::capture {

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

/// A plan on a device. Made: its commands are prepared. It runs once `choose_form` has kept a form.
class CudaPlanReplay {
 public:
  CudaPlanReplay(Plan plan, PlansDevice& shared, std::byte* arena, std::size_t base);
  CudaPlanReplay(const CudaPlanReplay&) = delete;

  const Plan& plan() const { return plan_; }
  const program::ReadSlots& reads() const { return *reads_; }
  void launch() const { form_->launch(); }

  /// One step, and what its tasks take, in the order in which they begin. By the device's records,
  /// where it has some: of the captured step, as it runs; else of all tasks in a row, whatever
  /// their guards say. Without records all tasks are timed, each alone, before the step.
  std::vector<KernelRun> profile();
  /// Warms up, captures, accepts, times; keeps the fastest form. Storages are restored after each.
  void choose_form(const Ranks* ranks, PlanReport& report);
  /// Bytes of a readable, from the device, as the plan's last step left it.
  void download(void* to, std::size_t index) const;
  /// The same, to memory of the device, behind the plan's last step and before its next.
  void copy_to(const Tensor& to, std::size_t index) const;
  const Type& readable_type(std::size_t index) const;

 private:
  program::ReadSlots make_reads() const;
  std::optional<std::vector<KernelRun>> profile_captured() const;
  std::vector<KernelTime> profile_in_a_row();
  void require_any(const std::vector<StepForm>& forms, const std::vector<std::string>& notes) const;
  void warm_up(std::span<const std::byte> before);
  void restore(std::span<const std::byte> before);
  StepOutcome outcome(const std::function<const std::byte*(std::size_t)>& address) const;
  /// `graphs`: whether collectives are to be captured, which none of the forms may be able to.
  ExpectedOutcomes stepwise(std::span<const std::byte> before, bool graphs);
  /// Leaves out forms that fail, or give other bits than the kernels one by one, with a note each;
  /// warns where no graph is left of several. Collectives of a graph may add in another order than
  /// uncaptured ones: its bits are those of kernels among which they are captured, each alone.
  /// Throws what the first one threw where none is left, or the driver is strict; of several ranks
  /// also where a form failed, as the others wait in it.
  void keep_accepted(std::vector<StepForm>& forms, std::vector<std::string>& notes,
                     std::span<const std::byte> before, bool of_ranks);
  void accept(const StepForm& form, std::span<const std::byte> before, const StepOutcome& expected);
  void launch_first(const StepForm& form);
  /// "graph "mlp", train: one graph, 2 streams".
  std::string form_name(const StepForm& form) const;
  /// Milliseconds a step of each form: the median of interleaved rounds. The host's part belongs to
  /// it: steps are launched as users' are, who read the loss of each before the next.
  std::vector<double> measure(std::span<const StepForm> forms, std::span<const std::byte> before);

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

}  // namespace metronome::executor::capture
