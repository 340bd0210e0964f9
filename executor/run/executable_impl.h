// The data of an Executable. Internal to executor/.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "executor/engine/engine.h"
#include "executor/engine/memory.h"
#include "executor/run/batch_shapes.h"
#include "executor/run/executable.h"
#include "executor/run/feed_views.h"
#include "executor/run/nan_lookout.h"
#include "executor/run/tracing.h"
#include "executor/support/spin_limiter.h"

namespace metronome {

/// Hashes names, so that one is looked up without a string being made.
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>()(name);
  }
};

/// Inputs and readables are numbered over all declared graphs, by name.
struct Executable::Impl {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// The kind of a step.
  struct Kind {
    Mode mode;
    std::size_t average = 0;  ///< among `averages`: stands in the place of the parameters

    std::size_t index() const { return average * kModes + static_cast<std::size_t>(mode); }
  };

  /// One of the graphs, each for batch shapes or modes of its own.
  struct DeclaredGraph {
    ir::Graph graph;                                   ///< the user's graph may be gone
    std::shared_ptr<const GraphIdentity> declared_by;  ///< tells its values from another graph's
    std::vector<std::int32_t> input_at;                ///< [node]: the input that it is, or -1
    std::vector<std::size_t> inputs;     ///< [input]: its memory, among those of `memory`, or kNone
    std::vector<std::size_t> readables;  ///< [readable]: its number in this graph, or kNone
    std::vector<executor::PlanId> plans;  ///< [kind]; absent if it was not compiled

    executor::PlanId plan(Kind kind) const { return plans[kind.index()]; }
  };
  /// The inputs and readables of a plan.
  struct PlanInterface {
    Mode mode;
    std::size_t shape;            ///< of which declared graph it is
    std::vector<bool> inputs;     ///< it reads this input
    std::vector<bool> readables;  ///< it computes this readable
    std::size_t missing = 0;      ///< of the inputs that it reads: those that hold nothing yet
  };
  /// The feeds of a call, and the inputs that they name. Room for all inputs is taken once: a step
  /// allocates nothing.
  struct FeedBuffer {
    std::int64_t call = 0;                 ///< calls so far
    std::vector<std::int64_t> in;          ///< [input] the last call that fed it
    std::vector<executor::FeedView> room;  ///< of as many feeds as a call had at most
    std::span<executor::FeedView> feeds;   ///< of this call
    std::vector<std::size_t> inputs;       ///< [feed of this call]

    bool now(std::size_t input) const { return in[input] == call; }
  };

  std::vector<DeclaredGraph> declared;
  std::vector<std::string> inputs;     ///< [input]: its name
  std::vector<std::string> readables;  ///< [readable]: its name
  std::vector<std::string> averages;   ///< by name; the first, "", is none
  std::optional<executor::BatchShapes> shapes;
  CompileOptions options;
  Report report;
  executor::Memory memory;
  std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>> input_named;
  std::shared_ptr<executor::SpinLimiter> spin_limiter;
  std::unique_ptr<executor::Engine> engine;
  std::vector<PlanInterface> plans;           ///< [PlanId]
  std::vector<executor::PlanId> computed_by;  ///< per readable: the plan whose step left it last
  std::vector<executor::PlanId> recent;       ///< of step n: [n % size]
  std::size_t shape = 0;                      ///< the declared graph that was picked last
  std::vector<std::size_t> shape_to;          ///< [kind]: of those compiled to it
  /// The graph whose input was handed out by its value since the last step, or kNone.
  std::size_t filled_by_value = kNone;
  FeedBuffer fed;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  mutable bool warned = false;  ///< of a fault
  /// It looks at readables and, behind them, storages; absent with a watch.
  mutable std::optional<executor::NanLookout> nan_lookout;
  std::string half_changed;  ///< the error of the step that left storages so; empty: none did
  std::optional<executor::Tracing> tracing;  ///< absent unless `start_trace` was called

  /// Fills what `declared`, `memory` and `plans` imply.
  void finish_tables();

  /// If `runs` is given, kernel by kernel; so are steps that are traced.
  void step(Kind kind, const executor::FeedViews& feeds, const GraphChoice& choice,
            std::vector<KernelRun>* runs = nullptr);
  void start_trace(int steps);
  Profile profile(Kind kind, const executor::FeedViews& feeds, const GraphChoice& choice,
                  int steps);
  PlanRecord plan_record() const;

  /// A place among the declared graphs' inputs.
  struct InputPlace {
    std::size_t shape;  ///< the value's graph; else the one picked last, or the first that has it
    std::size_t input;
  };
  /// Each throws RunError, naming what there is, where nothing matches.
  InputPlace input_of(const Value& value) const;
  InputPlace input_of(std::string_view name) const;
  std::size_t readable_of(const Value& value) const;
  std::size_t readable_of(std::string_view name) const;
  std::size_t storage_of(std::string_view path) const;
  std::size_t average_of(std::string_view name) const;

  /// Throws RunError where a step broke off and left storages half changed.
  void require_whole() const;
  /// Tells of a fault, once. Waits for nothing.
  void warn_of_fault() const;
  /// Tells of storages that are no numbers, in a file that was written.
  void warn_of_saved(const std::string& file) const;

  Tensor read(std::size_t readable) const;
  double read_scalar(std::size_t readable) const;
  double read_scalar(std::size_t readable, std::int64_t step) const;
  /// A tensor over an input's memory; picks its shape.
  Tensor fill(InputPlace place);
  void set_storage(std::size_t storage, const CallerTensor& offered);
  /// Resets the states that `path` finds, or all of them if it is absent.
  void reset_states(std::optional<std::string_view> path);
  Tensor storage_tensor(std::size_t storage) const;
  /// Returns a counter of the first graph.
  std::int64_t counter(StorageId counter) const;
  std::vector<executor::checkpoint::StorageEntry> storage_entries() const;
  /// Returns the data that checkpoints record beside storages.
  executor::checkpoint::CheckpointInfo origin() const {
    return {options.seed, report.choices_hash};
  }
  using Loader = std::function<std::vector<std::string>(
      std::span<const executor::checkpoint::StorageEntry> storages,
      const executor::checkpoint::CheckpointInfo& expected)>;
  /// Storages as `load` leaves them, on the engine, too; a step that left them half changed is
  /// forgotten.
  std::vector<std::string> load(const Loader& load);
  Snapshot snapshot() const;
  /// A storage's block that users see, from the engine's memory and back; of all storages.
  void fetch(std::size_t storage) const;
  void push(std::size_t storage);
  void fetch_all() const;
  void push_all();
  const ir::Graph& first() const { return declared[0].graph; }

 private:
  std::string prefix() const;
  std::string where() const;
  /// Throws RunError where the engine has no kernels to time, and says where to `what`.
  void require_kernels(std::string_view what) const;
  std::size_t input_of(const executor::FeedView& feed) const;
  void mark_filled(std::size_t index);
  bool has(InputPlace place) const { return declared[place.shape].inputs[place.input] != kNone; }
  const executor::InputMemory& input_memory(InputPlace place) const {
    return memory.inputs[declared[place.shape].inputs[place.input]];
  }
  std::string input_names() const;
  void pick(std::size_t picked);
  /// For a message on a value that is not there: if the graph has no loss, it says so.
  std::string_view no_loss() const;
  /// A readable in the graph of a plan.
  std::size_t readable_in_graph(executor::PlanId plan, std::size_t readable) const {
    return declared[plans[plan.index].shape].readables[readable];
  }
  /// In `computed_by`: of a readable whose last step broke off.
  static constexpr executor::PlanId kBrokenOff{-2};
  /// The plan that computed a readable last; throws RunError if no step has.
  executor::PlanId last_plan(std::size_t readable) const;
  /// A gradient, or a number of the update.
  bool of_training(std::size_t readable) const;
  void require_scalar(executor::PlanId plan, std::size_t readable) const;
  /// True for a value of one of the graphs that were compiled.
  bool is_own(const Value& value) const;

  void require_compiled(Kind kind) const;
  [[noreturn]] void break_off(executor::PlanId plan, const executor::BrokenStep& step);
  /// Throws RunError for a choice that is no graph of this executable, or none of this kind.
  void require_choice(Kind kind, const GraphChoice& choice) const;
  bool may_be(const GraphChoice& choice, std::size_t graph) const;
  /// The graphs that have a plan of this kind, and may be the one chosen.
  std::vector<std::size_t> compiled_to(Kind kind, const GraphChoice& choice) const;
  /// Sets `fed`: the one look at what the feeds are, and at what they name. Throws RunError, a line
  /// for each, for feeds that name no input, or one that was named before.
  void resolve(Kind kind, const executor::FeedViews& feeds, const GraphChoice& choice);
  /// The input of a feed, which no feed before it names.
  std::size_t input_of_new(const executor::FeedView& feed) const;
  /// Throws RunError for a feed that none of the graphs takes whatever the others are.
  void check_feed(Kind kind, const GraphChoice& choice, std::size_t index) const;
  /// The graph that the call means, as `Executable::run` says.
  std::size_t pick_by_feeds(Kind kind, const GraphChoice& choice) const;
  bool takes(std::size_t graph) const;
  /// How clearly the call means this graph, which takes its feeds.
  int clearness(Kind kind, std::size_t graph) const;
  [[noreturn]] void refuse_feeds(Kind kind, const GraphChoice& choice) const;
  [[noreturn]] void refuse_several(Kind kind, const GraphChoice& choice) const;
  /// One that none of these graphs declares.
  [[noreturn]] void refuse_input(Kind kind, const GraphChoice& choice, std::size_t input) const;
  void copy_feed(std::size_t index, const Tensor& from);
  void copy_feeds(std::size_t shape);
  std::vector<Tensor> set_aside(std::size_t shape) const;
  void require_filled(const PlanInterface& plan) const;
};

}  // namespace metronome
