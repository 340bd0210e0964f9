// One step of an executable.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/engine/ranks.h"
#include "executor/run/executable_impl.h"
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

/// The lower one of two.
double median(std::vector<double>& numbers) {
  const auto middle = numbers.begin() + (std::ssize(numbers) - 1) / 2;
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

}  // namespace

void Executable::Impl::step(Kind kind, const executor::FeedViews& feeds, const GraphChoice& choice,
                            std::vector<KernelRun>* runs) {
  const StepLock running(busy, first());
  require_compiled(kind);
  require_choice(kind, choice);
  require_whole();
  if (runs != nullptr) require_kernels("profile");
  std::vector<KernelRun> traced;
  const bool traces = runs == nullptr && tracing && tracing->wants_step();
  if (traces) {
    tracing->begin_step(engine->steps(), kind.mode);
    runs = &traced;
  }
  resolve(kind, feeds, choice);
  const std::size_t picked = pick_by_feeds(kind, choice);
  const executor::PlanId plan = declared[picked].plan(kind);
  const PlanInterface& planned = plans[plan.index];
  require_filled(planned);
  copy_feeds(picked);
  pick(picked);
  filled_by_value = kNone;
  const auto number = static_cast<std::size_t>(engine->steps());
  if (options.world) options.world->begin_step(engine->steps());
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
  recent[number % recent.size()] = plan;
  for (std::size_t i = 0; i < computed_by.size(); ++i) {
    if (planned.readables[i]) computed_by[i] = plan;
  }
}

void Executable::Impl::require_kernels(std::string_view what) const {
  if (engine->profiles()) return;
  throw RunError(
      fmt::format("{} runs by {}, which is not timed kernel by kernel: {} cpu_replay or cuda_graph",
                  prefix(), report.target, what));
}

std::string Executable::Impl::where() const {
  if (!report.device.empty()) return report.device;
  return fmt::format("{} thread{}", report.threads, report.threads == 1 ? "" : "s");
}

void Executable::Impl::start_trace(int steps) {
  const StepLock running(busy, first());
  if (steps < 1) {
    throw RunError(
        fmt::format("{}: start_trace cannot take {} steps; give 1 or more", prefix(), steps));
  }
  require_kernels("trace");
  tracing.emplace(steps, Trace{.graph = first().name(), .target = report.target, .where = where()});
}

Profile Executable::Impl::profile(Kind kind, const executor::FeedViews& feeds,
                                  const GraphChoice& choice, int steps) {
  if (steps < 1) {
    throw RunError(
        fmt::format("{}: profile cannot take {} steps; give 1 or more", prefix(), steps));
  }
  Profile profile{.graph = first().name(),
                  .where = where(),
                  .mode = kind.mode,
                  .steps = steps,
                  .plan = 0,
                  .kernels = {}};
  std::unordered_map<std::string, std::size_t> known;
  std::vector<std::vector<double>> of_each;  // [kernel] microseconds of each run
  const executor::LoadWatch watch;
  for (int step = 0; step < steps; ++step) {
    std::vector<KernelRun> runs;
    this->step(kind, feeds, choice, &runs);
    for (auto& [time, begin] : runs) {
      const auto [place, added] = known.emplace(time.kernel, profile.kernels.size());
      if (added) of_each.emplace_back();
      of_each[place->second].push_back(time.microseconds);
      if (added) profile.kernels.push_back(std::move(time));
    }
  }
  const auto last = static_cast<std::size_t>(engine->steps() - 1);
  profile.plan = static_cast<std::size_t>(recent[last % recent.size()].index);
  for (std::size_t i = 0; i < profile.kernels.size(); ++i) {
    KernelTime& kernel = profile.kernels[i];
    kernel.runs = static_cast<double>(of_each[i].size()) / steps;
    kernel.microseconds = median(of_each[i]) * kernel.runs;
  }
  const auto by_host = [](const KernelTime& kernel) { return kernel.by == TimedBy::host_clock; };
  profile.under_load =
      std::ranges::any_of(profile.kernels, by_host) && watch.share() > executor::kMuchLoad;
  return profile;
}

/// The plan's readable values are half made; those of other plans lie elsewhere.
void Executable::Impl::break_off(executor::PlanId plan, const executor::BrokenStep& step) {
  std::ranges::replace(computed_by, plan, kBrokenOff);
  std::string text = fmt::format("{}: step {}: {}; ", prefix(), engine->steps(), step.what());
  if (!step.changed) throw RunError(text + "no storage was changed, so the step may be run again");
  text +=
      "the step had begun to change storages: load a checkpoint, or compile the graph again; until "
      "then run, evaluate, profile, save and snapshot refuse";
  half_changed = text;
  throw RunError(text);
}

void Executable::Impl::require_whole() const {
  if (!half_changed.empty()) throw RunError(half_changed);
}

void Executable::Impl::require_compiled(Kind kind) const {
  const auto compiled = [&](const DeclaredGraph& d) { return d.plan(kind).present(); };
  if (std::ranges::any_of(declared, compiled)) return;
  throw RunError(fmt::format("{} was not compiled to {}; add mt::{} to CompileOptions::modes",
                             prefix(), name_of(kind.mode), name_of(kind.mode)));
}

}  // namespace metronome
