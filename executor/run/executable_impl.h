// The parts of an Executable, and its steps. Internal to executor/.
//
//   declared   which input, readable and plan a name, a value or a choice means; no step changes it
//   feeds      of the call: the inputs that they name, and the graph that they mean
//   inputs     which hold something; copies of feeds
//   values     what steps left to be read
//   storages   between steps: get, set, reset, save, load
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/memory.h"
#include "executor/run/declared_graphs.h"
#include "executor/run/executable.h"
#include "executor/run/feed_views.h"
#include "executor/run/filled_inputs.h"
#include "executor/run/settable_numbers.h"
#include "executor/run/step_feeds.h"
#include "executor/run/step_values.h"
#include "executor/run/storage_access.h"
#include "executor/run/tracing.h"
#include "executor/support/spin_limiter.h"

namespace metronome {

/// The memory and the engine that all parts share, and the steps, which lead from one part to the
/// next. `Executable` calls the part that knows the answer.
struct Executable::Impl {
  /// `engine` runs on `memory`. `slots`: steps whose numbers can be read.
  Impl(executor::DeclaredGraphs declared, CompileOptions options, Report report,
       std::unique_ptr<executor::Memory> memory, std::unique_ptr<executor::Engine> engine,
       std::shared_ptr<executor::SpinLimiter> spin_limiter, int slots);

  /// If `runs` is given, kernel by kernel; so are steps that are traced.
  void step(executor::StepKind kind, const executor::FeedViews& feeds, const GraphChoice& choice,
            std::vector<KernelRun>* runs = nullptr);
  std::vector<std::vector<double>> run_many(std::int64_t steps, std::span<const Value> scalars,
                                            const GraphChoice& choice);
  void start_trace(int steps);
  Profile profile(executor::StepKind kind, const executor::FeedViews& feeds,
                  const GraphChoice& choice, int steps);
  /// Copies a caller's tensor into the storage of that path.
  void set(std::string_view path, const CallerTensor& offered);
  /// A tensor over an input's memory; picks its graph, most clearly if a value gave it.
  Tensor hand_out(executor::InputPlace place, bool by_value);
  PlanRecord plan_record() const;
  executor::SettableNumbers settable() { return {declared, storages, options.data_parallel.get()}; }

  const executor::DeclaredGraphs declared;
  const CompileOptions options;
  Report report;
  const std::unique_ptr<executor::Memory> memory;
  const std::shared_ptr<executor::SpinLimiter> spin_limiter;
  const std::unique_ptr<executor::Engine> engine;
  executor::StepFeeds feeds;
  executor::FilledInputs inputs;
  executor::StepValues values;
  executor::StorageAccess storages;
  std::optional<executor::Tracing> tracing;  ///< absent unless `start_trace` was called

 private:
  std::string where() const;
  /// Throws RunError where the engine has no kernels to time, and says where to `what`.
  void require_kernels(std::string_view what) const;
  [[noreturn]] void break_off(executor::PlanId plan, const executor::BrokenStep& step);

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace metronome
