// A plan is made ready once: prepare -> warm up -> capture in each form -> compare a launch with
// `stepwise`, bit for bit -> time -> keep the fastest; storages are put back.
#include "executor/cuda/capture/plan_replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "executor/cuda/capture/cuda_steps.h"
#include "executor/cuda/capture/launch_watch.h"
#include "executor/cuda/capture/step_forms.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::capture {

CudaPlanReplay::CudaPlanReplay(Plan plan, PlansDevice& shared, std::byte* arena, std::size_t base)
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

std::vector<KernelRun> CudaPlanReplay::profile() {
  if (auto captured = profile_captured()) return std::move(*captured);
  std::vector<KernelRun> runs;
  double begin = 0;
  for (KernelTime& time : profile_in_a_row()) {
    const double us = time.microseconds;
    runs.push_back({std::move(time), begin});
    begin += us;
  }
  return runs;
}

std::optional<std::vector<KernelRun>> CudaPlanReplay::profile_captured() const {
  const auto launched = form_->launch_by_records();
  if (!launched) return std::nullopt;
  std::vector<KernelRun> runs;
  std::vector<bool> ran(tasks_.size());
  for (const TaskRun& run : *launched) {
    if (run.task >= 0) ran[run.task] = true;
    runs.push_back({run.task >= 0 ? tasks_[run.task].kernel
                                  : KernelTime{.kernel = "conditions", .op = "conditions"},
                    run.begin});
    runs.back().kernel.microseconds = run.end - run.begin;
    runs.back().kernel.by = TimingMethod::captured;
  }
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (ran[i] || tasks_[i].commands.empty()) continue;
    if (form_->skips() && tasks_[i].guard.present()) continue;
    logger().warn("{}: there is no record of it: it is left out", tasks_[i].kernel.kernel);
  }
  return runs;
}

std::vector<KernelTime> CudaPlanReplay::profile_in_a_row() {
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

void CudaPlanReplay::choose_form(const Ranks* ranks, PlanReport& report) {
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

void CudaPlanReplay::download(void* to, std::size_t index) const {
  const ValueId value = plan_.graph.readables()[index].value;
  const std::size_t bytes = plan_.graph.type(value).bytes();
  if (bytes == 0) return;
  shared_.driver->download(to, address_of(plan_, bases_, value), bytes, shared_.streams[0]);
}

void CudaPlanReplay::copy_to(const Tensor& to, std::size_t index) const {
  const ValueId value = plan_.graph.readables()[index].value;
  if (to.bytes() == 0) return;
  shared_.order.between(to.stream, shared_.streams[0], [&] {
    shared_.driver->upload(to.data, address_of(plan_, bases_, value), to.bytes(),
                           shared_.streams[0]);
  });
}

const Type& CudaPlanReplay::readable_type(std::size_t index) const {
  return plan_.graph.type(plan_.graph.readables()[index].value);
}

program::ReadSlots CudaPlanReplay::make_reads() const {
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

void CudaPlanReplay::require_any(const std::vector<StepForm>& forms,
                                 const std::vector<std::string>& notes) const {
  if (!forms.empty()) return;
  throw RunError(fmt::format("graph \"{}\", {}: no form of the step can be made: {}",
                             plan_.graph.name(), name_of(plan_.report), fmt::join(notes, "; ")));
}

void CudaPlanReplay::warm_up(std::span<const std::byte> before) {
  run_one_by_one(*shared_.driver, tasks_, shared_.streams[0]);
  restore(before);
}

void CudaPlanReplay::restore(std::span<const std::byte> before) {
  shared_.state.restore(before);
  shared_.faults.reset();
  reads_->clear();
}

StepOutcome CudaPlanReplay::outcome(
    const std::function<const std::byte*(std::size_t)>& address) const {
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

ExpectedOutcomes CudaPlanReplay::stepwise(std::span<const std::byte> before, bool graphs) {
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

void CudaPlanReplay::keep_accepted(std::vector<StepForm>& forms, std::vector<std::string>& notes,
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

void CudaPlanReplay::accept(const StepForm& form, std::span<const std::byte> before,
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

void CudaPlanReplay::launch_first(const StepForm& form) {
  const LaunchWatch watch(form_name(form));
  form.launch();
  shared_.driver->synchronize(shared_.streams[0]);
}

std::string CudaPlanReplay::form_name(const StepForm& form) const {
  return fmt::format("graph \"{}\", {}: {}", plan_.graph.name(), name_of(plan_.report),
                     form.name());
}

std::vector<double> CudaPlanReplay::measure(std::span<const StepForm> forms,
                                            std::span<const std::byte> before) {
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

}  // namespace metronome::executor::capture
