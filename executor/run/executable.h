// A compiled graph: run it, feed it, read it, save it.
//
//   run, evaluate, profile     feeds -> the graph that they mean -> a step of its plan
//   input                      an input's memory, to be filled in place of a feed
//   read, read_scalar          what the last step left to be read
//   get, set, save, load       storages between steps
//
// Its parts, and who does what, are in executable_impl.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/checkpoint/snapshot.h"
#include "executor/checkpoint/weights.h"
#include "executor/engine/profile.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "executor/support/tensor.h"
#include "graph/builder/graph.h"

namespace at {
class Tensor;
}

namespace metronome {

class Feed;            // executor/run/feed.h
struct ExportOptions;  // executor/export/export_library.h
struct OnnxOptions;    // executor/onnx/to_onnx.h
struct PlanRecord;     // executor/record/plan_record.h
struct Trace;          // executor/record/trace.h

/// The treatment of states (`Graph::state`) in an evaluation.
enum class States : std::uint8_t {
  stay,     ///< as they are
  advance,  ///< each takes its next value (`Graph::feed`), as in training
};

/// One of the graphs that were compiled together: by a value of it, or by its name. By default the
/// feeds pick the graph.
class GraphChoice {
 public:
  GraphChoice() = default;
  GraphChoice(const Value& value) : identity(value.identity()), given(true) {}
  GraphChoice(std::string_view graph) : name(graph), given(true) {}
  GraphChoice(const char* graph) : GraphChoice(std::string_view(graph)) {}
  GraphChoice(const std::string& graph) : GraphChoice(std::string_view(graph)) {}

  std::shared_ptr<const GraphIdentity> identity;  ///< of the value's graph
  std::string_view name;                          ///< shows what the caller holds
  bool given = false;
};

struct RunOptions {
  GraphChoice graph = {};
};

struct EvaluateOptions {
  States states = States::stay;
  /// Averages of the parameters in their place (`Graph::average`), or their name: `{.with = ema}`.
  /// Throws RunError where no graph that is compiled keeps them.
  std::string_view with = {};
  GraphChoice graph = {};
};

struct ProfileOptions {
  int steps = 1;  ///< times are medians over these
  Mode mode = Mode::train;
  GraphChoice graph = {};
};

/// Owns storage, inputs, readable values and arena; shares nothing with other executables. Not for
/// several threads at once: a second call while one runs throws RunError.
///
/// Every call that throws RunError leaves the executable as it was, but for a step that breaks off
/// because a library failed in one of its kernels: what it was to compute cannot be read. If it had
/// begun to change storages, the error says so, and `run`, `evaluate`, `profile`, `save` and
/// `snapshot` throw it again until `load` succeeds; `get`, `set` and `reset` work on what there is.
/// Every call on an executable that was moved from throws RunError.
///
/// A tensor that `input` or `read` returns keeps the bytes that it shows, and them alone: it may
/// outlive the executable. As long as both live, the next call still changes what it shows, as is
/// said at each; clone it to keep the numbers. One that `get` returns is a copy.
class Executable {
 public:
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  /// One training step (the forward pass only if the graph has no loss). Inputs that are not fed
  /// keep what they hold; each must have been fed or filled once. Throws RunError if one is fed
  /// twice in one call.
  ///
  /// If several graphs were compiled to train, the feeds pick one of those that take them all, with
  /// the shapes that it declares:
  /// - the graph of a value that is fed;
  /// - else the graph of the value that `input` was given since the last step;
  /// - else the only one that takes them.
  /// `RunOptions::graph` narrows the choice. Without feeds, the graph that was picked last runs. An
  /// input keeps what was fed to it in each of its shapes. Throws RunError if several graphs are
  /// left, and lists them; and if none is, with their shapes and the nearest of them.
  void run(std::initializer_list<Feed> feeds = {}, RunOptions options = {});
  void run(std::span<const Feed> feeds, RunOptions options = {});
  /// So many training steps, one after the other, without feeds: each takes what inputs hold, for
  /// graphs whose data lie in the step (`mt::ReplayBuffer`, `mt::shuffled_batch`). Returns the
  /// numbers that `scalars` had: [scalar][step]. A step that breaks off throws as `run` does, and
  /// leaves those before it done. A fault is logged with the step by which it was seen. Ranks that
  /// train data parallel all take as many, or all get RunError. steps >= 1.
  std::vector<std::vector<double>> run_many(std::int64_t steps,
                                            std::initializer_list<Value> scalars = {},
                                            RunOptions options = {});
  /// An evaluation: no update, no counter advances, and states stay as they are, unless they are
  /// told to advance. Needs Mode::evaluate, or Mode::advance, among the modes. The graph is picked
  /// as by `run`, among those of that mode.
  void evaluate(std::initializer_list<Feed> feeds = {}, EvaluateOptions options = {});
  void evaluate(std::span<const Feed> feeds, EvaluateOptions options = {});

  /// Training steps as `run` takes them, or evaluations (`ProfileOptions::mode`), kernel by kernel:
  /// how long each took, with its op, scope, part of the step, bytes and operations. The feeds are
  /// those of each step. `to_string` of the result is tables. Kernels that a condition skips are
  /// not among them. On a GPU times are the device's own records (CUPTI) of the captured step as it
  /// runs: kernels that run side by side each have their whole time, and recording makes a step
  /// longer. A step that is not captured is recorded kernel by kernel. Without records each kernel
  /// is timed alone, with its operands in the caches, before the step. Then what conditions skip is
  /// among them, too; `KernelTime::by` says how it was. Throws RunError for `stepwise` and `eager`.
  Profile profile(std::initializer_list<Feed> feeds = {}, ProfileOptions options = {});
  Profile profile(std::span<const Feed> feeds, ProfileOptions options = {});

  /// The next `steps` steps, of `run` and `evaluate`, are taken kernel by kernel, as `profile`
  /// takes them, and kept. An earlier trace is forgotten. Throws RunError for `stepwise` and
  /// `eager`.
  void start_trace(int steps);
  /// The steps that were traced since then; `to_json` of it is for a trace viewer. Throws RunError
  /// before `start_trace`.
  Trace trace() const;

  /// A tensor over the input's memory, to be filled in place; counts as fed. A later feed changes
  /// what it shows. A value picks its graph for the next step; a name keeps the graph that was
  /// picked last, at first the first one. On a GPU large inputs go to the device
  /// from there, with no copy on the way; `run` returns when they are there, so that they may be
  /// filled again at once.
  at::Tensor input(Value input);
  at::Tensor input(std::string_view name);

  /// The value of the last step that computed it. By `cpu_replay` and `stepwise` on a CPU it shows
  /// the executable's memory, which the next step changes; by `eager` and on a GPU it is a copy,
  /// which no step changes. Outputs, named values, the loss and declared gradients can be read.
  /// If several graphs were compiled, values of one name stand for each other: any of them reads
  /// the value in the graph that ran, in its shape.
  ///
  /// `read`, `read_scalar` and `get` warn of a name that holds a NaN, once each, without a watch,
  /// too. They look at every number, and at larger tensors as often as costs 2 % of a step: the
  /// first time, then at every k-th read (executor/run/nan_lookout.h).
  at::Tensor read(Value value) const;
  at::Tensor read(std::string_view name) const;
  /// `read` without a header of libtorch: `to_span<float>(step.read_tensor(y))`.
  Tensor read_tensor(Value value) const;
  Tensor read_tensor(std::string_view name) const;
  /// Copies the value to contiguous elements of its type: the host's, as `read` does, or those of
  /// a GPU on which the executable runs. For these the host does not wait: work that `to.stream`,
  /// of a tensor of libtorch its current stream, was asked for before this call comes before the
  /// copy, and work that it is asked for after this call comes after it. Throws RunError for
  /// another type or place, and for a negated view.
  void read_into(Value value, const at::Tensor& to) const;
  void read_into(std::string_view name, const at::Tensor& to) const;
  void read_into(Value value, const Tensor& to) const;
  void read_into(std::string_view name, const Tensor& to) const;
  /// A value of one element as a number; allocates nothing. On a GPU it waits for the last step
  /// alone, whatever else is in flight.
  double read_scalar(Value value) const;
  /// The number of an earlier step, counted from 0 over run and evaluate: `CudaOptions::slots` of
  /// them are kept on a GPU, the last one on a CPU. Throws RunError for a step that is not kept, or
  /// to come.
  double read_scalar(Value value, std::int64_t step) const;

  /// A copy of a storage as the last step left it, in host memory, by path:
  /// "tower/3/linear/weight", "optimizer/exp_avg/...", "replay". Written to, it changes the storage
  /// only when it is given to `set`.
  at::Tensor get(std::string_view path) const;
  Tensor get_tensor(std::string_view path) const;
  /// Copies into a storage; sizes and element type must agree. Refuses numbers of an optimizer out
  /// of range, as `set_learning_rate` does.
  void set(std::string_view path, const at::Tensor& tensor);
  void set(std::string_view path, const Tensor& tensor);
  /// A number of an objective's optimizer, for the steps to come; no compile is needed. Its
  /// optimizer declares it `Settable` (a learning rate may be a `Plateau`, too): it is a storage,
  /// so it is part of checkpoints, and `load` puts back what was saved. `objective` names it where
  /// the graph has several. Ranks that train data parallel all set the same. Each throws RunError,
  /// changing nothing, for a number that is not settable, or that an optimizer would refuse, or
  /// on all ranks where they differ.
  void set_learning_rate(double rate, std::string_view objective = {});
  void set_weight_decay(double decay, std::string_view objective = {});
  void set_clip_norm(double norm, std::string_view objective = {});
  /// The number as it was set last, or as a plateau made it, for the next update that takes it: a
  /// schedule takes it while its settable part is at work. `Graph::learning_rate` tells what an
  /// update took. Each throws RunError for a number that is not settable.
  double learning_rate(std::string_view objective = {}) const;
  double weight_decay(std::string_view objective = {}) const;
  double clip_norm(std::string_view objective = {}) const;
  /// The paths of all storages.
  std::vector<std::string> storages() const;
  /// Puts states back at their initial values, as before the first step: all of them, or those at
  /// `path` or below it; `path` may be a glob, as in Graph::freeze. All other storages stay.
  void reset();
  void reset(std::string_view path);

  /// Steps begun, of run and evaluate.
  std::int64_t steps() const;
  /// Training steps run and updates made; part of checkpoints.
  std::int64_t replays() const;
  std::int64_t updates() const;

  /// Returns the first mistake that did not stop its step, in words. A node is at fault if it
  /// looked up an index that is not there (a label, an embedding's index, a selector of `choose`),
  /// drew by probabilities that cannot be (`bernoulli`, `categorical`, `multinomial`) or, if
  /// `CompileOptions::watch` is on, made a number that is not finite. The text names one node: the
  /// first declared of those at fault in the first step that had any. Examples: `pick
  /// {ignored=-100} "cross_entropy_loss/pick" (train.cc:12): target 10 is out of range 0 to 9 (-100
  /// is ignored)`, `log "tower/log" (tower.cc:50): made a NaN`. The index in the text is the least
  /// of several. `read`, `read_scalar` and `save` log it once, as a warning. `eager` throws
  /// RunError for an index instead, but for a selector.
  std::optional<std::string> fault() const;

  /// Writes every storage to a safetensors file: to a temporary name beside it, flushed, then
  /// renamed.
  void save(const std::string& file) const;
  /// Takes every storage from a file that `save` wrote. Returns one line for each thing that was
  /// left at its initial value, ignored, or differs from when the file was written. Throws
  /// RunError, changing nothing, where the file is damaged or of another model.
  std::vector<std::string> load(const std::string& file);
  /// Parameters and buffers, or what `options` says, for other programs: a safetensors file whose
  /// names have "." for "/", as PyTorch's do. Written as `save` does.
  void save(const std::string& file, const SaveOptions& options) const;
  /// Takes parameters and buffers, or what `options` says, from a file that `save` wrote, from a
  /// safetensors file of another program, or from all files of an index
  /// ("model.safetensors.index.json"); counters, moments and the seed stay. Floating numbers of a
  /// narrower type are widened. An average begins as its parameter is then. Throws RunError,
  /// changing nothing: `load_weights` (executor/checkpoint/load_weights.h) says where.
  LoadReport load(const std::string& file, const LoadOptions& options);

  /// Every storage as it is now, kept in memory: to go back to, or for another executable of the
  /// same model, as one that evaluates larger batches or runs on another target.
  Snapshot snapshot() const;
  /// Does what `load` of a file does, from a snapshot of this executable or of another one.
  std::vector<std::string> load(const Snapshot& snapshot);
  LoadReport load(const Snapshot& snapshot, const LoadOptions& options);

  /// Decisions of compile for people: `to_string` of it is text.
  const Report& report() const;
  /// Everything that compile decided, as data (executor/record/plan_record.h); without times of
  /// kernels, which `profile` takes. Throws RunError for `eager`, which runs no plan.
  PlanRecord plan_record() const;
  /// The record with the times of a profile that this executable took: `to_html` of it is a page
  /// with them.
  PlanRecord plan_record(const Profile& profile) const;

  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);

 private:
  friend void export_library(Executable& step, const std::string& folder,
                             const ExportOptions& options);
  friend void to_onnx(Executable& step, const std::string& file, const OnnxOptions& options);
  /// Throws RunError if it was moved from.
  Impl& require_impl() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace metronome
