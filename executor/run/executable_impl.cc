// A step, from its feeds to the engine:
//
//   require    one step at a time; a kind that was compiled; storages that are whole
//   resolve    feeds -> inputs and the graph that they mean -> its plan for this kind
//   fill       each input of the plan holds something; feeds are copied
//   run        the engine's plan, or kernel by kernel for a profile or a trace
//   note       the step and its plan, whose readables may now be read
//
// A kernel that fails on the host ends in BrokenStep. The step may run again if it had written to
// no storage; else the storages are half changed, and `break_off` says what mends that.
#include "executor/run/executable_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "executor/engine/ranks.h"
#include "executor/engine/step_gaps.h"
#include "executor/record/record_plans.h"
#include "executor/run/rank_agreement.h"
#include "executor/support/load_watch.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

/// Holds an executable's one place for a running step.
class StepLock {
 public:
  StepLock(std::atomic_flag& flag, const ir::Graph& graph) : flag_(flag) {
    if (flag_.test_and_set(std::memory_order_acquire)) {
      throw RunError(
          fmt::format("graph \"{}\" is running a step already; one executable runs one "
                      "step at a time",
                      graph.name()));
    }
  }
  ~StepLock() { flag_.clear(std::memory_order_release); }
  StepLock(const StepLock&) = delete;
  StepLock& operator=(const StepLock&) = delete;

 private:
  std::atomic_flag& flag_;
};

class NoFeeds final : public executor::FeedViews {
 public:
  std::size_t size() const override { return 0; }
  void show(std::size_t, executor::FeedView&) const override {}
  std::shared_ptr<void> owner_of(std::size_t) const override { return {}; }
};

/// The lower one of two.
double median(std::vector<double>& numbers) {
  const auto middle = numbers.begin() + (std::ssize(numbers) - 1) / 2;
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

/// The bytes that a step touches at least once, by which reads are looked at; absent with a watch,
/// which tells of more.
std::optional<std::size_t> lookout_bytes(const executor::Memory& memory, const Report& report,
                                         const CompileOptions& options) {
  if (options.watch) return std::nullopt;
  std::size_t bytes = report.arena_bytes;
  for (const Storage& s : memory.storages) bytes += s.type.bytes();
  return bytes;
}

}  // namespace

Executable::Impl::Impl(executor::DeclaredGraphs tables, CompileOptions asked, Report told,
                       std::unique_ptr<executor::Memory> blocks,
                       std::unique_ptr<executor::Engine> runner,
                       std::shared_ptr<executor::SpinLimiter> limiter, int slots)
    : declared(std::move(tables)),
      options(std::move(asked)),
      report(std::move(told)),
      memory(std::move(blocks)),
      spin_limiter(std::move(limiter)),
      engine(std::move(runner)),
      feeds(declared, *memory, *engine),
      inputs(declared, *memory, *engine),
      values(declared, *engine, slots, lookout_bytes(*memory, report, options)),
      storages(declared.prefix(), *memory, *engine,
               {options.seed, report.choices_hash, declared.draw()},
               lookout_bytes(*memory, report, options)) {}

void Executable::Impl::step(executor::StepKind kind, const executor::FeedViews& views,
                            const GraphChoice& choice, std::vector<KernelRun>* runs) {
  const StepLock running(busy_, declared.first());
  declared.require_compiled(kind);
  declared.require_choice(kind, choice);
  storages.require_whole();
  if (runs != nullptr) require_kernels("profile");
  std::vector<KernelRun> traced;
  const bool traces = runs == nullptr && tracing && tracing->wants_step();
  if (traces) {
    tracing->begin_step(engine->steps(), kind.mode);
    runs = &traced;
  }
  const std::size_t graph = feeds.resolve(kind, views, choice);
  const executor::PlanId plan = declared[graph].plan(kind);
  inputs.require_filled(plan, feeds);
  inputs.copy_feeds(graph, feeds, views);
  feeds.pick_for_step(graph);
  const std::int64_t number = engine->steps();
  if (options.world) options.world->begin_step(number);
  if (traces) tracing->begin_kernels();
  try {
    if (runs != nullptr) {
      *runs = engine->profile(plan);
    } else {
      engine->run(plan);
    }
  } catch (const executor::BrokenStep& broken) {
    break_off(plan, broken);
  }
  if (traces) tracing->end_step(std::move(traced));
  values.note_step(number, plan);
}

std::vector<std::vector<double>> Executable::Impl::run_many(std::int64_t steps,
                                                            std::span<const Value> scalars,
                                                            const GraphChoice& choice) {
  std::vector<std::size_t> readables;
  for (const Value& scalar : scalars) readables.push_back(declared.readable_of(scalar));
  if (options.data_parallel) {
    executor::require_same_call(*options.data_parallel, declared.prefix(),
                                fmt::format("run_many({})", steps));
  }
  if (steps < 1) {
    throw RunError(
        fmt::format("{}: run_many cannot take {} steps; give 1 or more", declared.prefix(), steps));
  }
  for (const std::size_t readable : readables) values.require_scalars(readable);
  std::vector<std::vector<double>> numbers(scalars.size());
  const std::int64_t first = engine->steps(), kept = values.slots();
  const auto read = [&](std::int64_t step) {
    for (std::size_t i = 0; i < readables.size(); ++i) {
      numbers[i].push_back(values.read_scalar(readables[i], first + step));
    }
  };
  // A step is read when as many are behind it as are kept: a device need not wait for each.
  for (std::int64_t done = 0; done < steps; ++done) {
    step({Mode::train}, NoFeeds(), choice);
    values.warn_of_fault(first + done);
    if (done + 1 >= kept) read(done + 1 - kept);
  }
  for (std::int64_t left = std::max<std::int64_t>(0, steps + 1 - kept); left < steps; ++left) {
    read(left);
  }
  return numbers;
}

void Executable::Impl::break_off(executor::PlanId plan, const executor::BrokenStep& step) {
  values.note_broken_step(plan);
  std::string text =
      fmt::format("{}: step {}: {}; ", declared.prefix(), engine->steps(), step.what());
  if (step.lost_rank) {
    text.append("end all ranks and start them again");
  } else if (step.changed) {
    text.append(
        "the step had begun to change storages: load a checkpoint, or compile the graph again; "
        "until then run, evaluate, profile, save and snapshot refuse");
  } else {
    text.append("no storage was changed, so the step may be run again");
  }
  if (step.changed) storages.mark_half_changed(text);
  if (step.lost_rank) throw LostRank(text);
  throw RunError(text);
}

void Executable::Impl::set(std::string_view path, const CallerTensor& offered) {
  const std::size_t storage = storages.storage_of(path);
  settable().require_range(path, offered);
  storages.set(storage, offered);
}

Tensor Executable::Impl::hand_out(executor::InputPlace place, bool by_value) {
  Tensor shown = inputs.hand_out(place);
  feeds.pick_for_input(place.graph, by_value);
  return shown;
}

// ---- times and plans ----------------------------------------------------------------------

void Executable::Impl::require_kernels(std::string_view what) const {
  if (engine->profiles()) return;
  throw RunError(
      fmt::format("{} runs by {}, which is not timed kernel by kernel: {} cpu_replay or cuda_graph",
                  declared.prefix(), report.target, what));
}

std::string Executable::Impl::where() const {
  if (!report.device.empty()) return report.device;
  return fmt::format("{} thread{}", report.threads, report.threads == 1 ? "" : "s");
}

void Executable::Impl::start_trace(int steps) {
  const StepLock running(busy_, declared.first());
  if (steps < 1) {
    throw RunError(fmt::format("{}: start_trace cannot take {} steps; give 1 or more",
                               declared.prefix(), steps));
  }
  require_kernels("trace");
  tracing.emplace(
      steps, Trace{.graph = declared.first().name(), .target = report.target, .where = where()});
}

Profile Executable::Impl::profile(executor::StepKind kind, const executor::FeedViews& views,
                                  const GraphChoice& choice, int steps) {
  if (steps < 1) {
    throw RunError(
        fmt::format("{}: profile cannot take {} steps; give 1 or more", declared.prefix(), steps));
  }
  Profile profile{.graph = declared.first().name(),
                  .where = where(),
                  .mode = kind.mode,
                  .steps = steps,
                  .plan = 0,
                  .kernels = {}};
  std::unordered_map<std::string, std::size_t> known;
  std::vector<std::vector<double>> of_each;  // [kernel] microseconds of each run
  std::vector<double> idle, overlap;         // [step]
  const executor::LoadWatch watch;
  for (int step = 0; step < steps; ++step) {
    std::vector<KernelRun> runs;
    this->step(kind, views, choice, &runs);
    if (!runs.empty() && runs.front().kernel.by == TimingMethod::captured) {
      const executor::StepGaps gaps = executor::gaps_of(runs);
      idle.push_back(gaps.idle);
      overlap.push_back(gaps.overlap);
    }
    for (auto& [time, begin] : runs) {
      const auto [place, added] = known.emplace(time.kernel, profile.kernels.size());
      if (added) of_each.emplace_back();
      of_each[place->second].push_back(time.microseconds);
      if (added) profile.kernels.push_back(std::move(time));
    }
  }
  profile.plan = static_cast<std::size_t>(values.last_plan().index);
  for (std::size_t i = 0; i < profile.kernels.size(); ++i) {
    KernelTime& kernel = profile.kernels[i];
    kernel.runs = static_cast<double>(of_each[i].size()) / steps;
    kernel.microseconds = median(of_each[i]) * kernel.runs;
  }
  if (!idle.empty()) {
    profile.idle_microseconds = median(idle);
    profile.overlap_microseconds = median(overlap);
  }
  const auto by_host = [](const KernelTime& kernel) {
    return kernel.by == TimingMethod::host_clock;
  };
  profile.under_load =
      std::ranges::any_of(profile.kernels, by_host) && watch.share() > executor::kMuchLoad;
  return profile;
}

PlanRecord Executable::Impl::plan_record() const {
  std::vector<const executor::Plan*> recorded;
  for (std::size_t i = 0; i < declared.plans().size(); ++i) {
    recorded.push_back(engine->plan({static_cast<std::int32_t>(i)}));
    if (recorded.back() == nullptr) {
      throw RunError(
          fmt::format("{}: {} runs no plan, so there is none to record; compile for "
                      "cpu_replay, cuda_graph, null or stepwise",
                      declared.prefix(), report.target));
    }
  }
  return executor::record_of(report, recorded);
}

}  // namespace metronome
