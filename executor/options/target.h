// The target and the options for which a graph is compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/support/device.h"
#include "graph/ir/mode.h"
#include "ops/rules/own_ops.h"

namespace metronome {

class CudaDriver;
class Observer;
namespace executor {
class Backend;
class Ranks;
}  // namespace executor

/// Whether kernels may be timed when a graph is compiled.
enum class Tune : std::uint8_t {
  measure,  ///< the tuning file's entry; without one, time the candidates and keep the choice there
  file,     ///< the tuning file's entry; without one, the fixed rule
  off,      ///< the fixed rule
};

/// Who wrote a CPU kernel, where one op has several.
enum class Family : std::uint8_t {
  usual,   ///< whichever `Tune` says
  own,     ///< Metronome
  mkl,     ///< the MKL in libtorch
  onednn,  ///< oneDNN
};

/// How loops and branches that data decide are put into a CUDA graph.
enum class Conditions : std::uint8_t {
  measured,  ///< in each of the other ways; the fastest is kept
  masked,    ///< not at all: everything runs, and what need not have run is not looked at
  flat,      ///< conditional nodes side by side; RunError if the device refuses
  nested,    ///< conditional nodes within those that their conditions imply; the same
};

/// How a step is put on a GPU.
struct CudaOptions {
  /// Numbered from 0. Absent: the first; of several ranks each takes the one of its number among
  /// the ranks of its machine (LOCAL_RANK).
  std::optional<int> device = {};
  /// Matrix products in TF32 (10 bits of mantissa) in place of IEEE f32.
  bool tf32 = false;
  /// Steps that may be in flight: `run` waits for the one this many steps back.
  int slots = 2;
  /// Large feeds in page-locked memory are read behind `run`, which does not wait for that: the
  /// caller leaves what it fed as it is until so many more steps as `slots` were begun. Tensors
  /// are kept until then, which allocates some bytes for each of libtorch's; memory behind
  /// `from_span` is the caller's to keep.
  bool non_blocking = false;
  /// Streams that wide branches are captured on, where that is measured to be faster; 1: never.
  int streams = 4;
  Conditions conditions = Conditions::measured;
  /// Compute elementwise chains, and the reductions they meet, in one kernel each.
  bool fuse = true;
};

struct CompileOptions {
  std::vector<Mode> modes = {Mode::train};
  std::uint64_t seed = 0;
  /// Names, as `read` takes them, of the values that evaluation computes: it asks for no input that
  /// only other values need, such as the target of the loss. Empty: every value that can be read.
  std::vector<std::string> evaluate_outputs = {};
  /// Threads a kernel may use; 0: as many as libtorch uses (`at::get_num_threads`). As with
  /// libtorch, more than the machine has cores are slow but right, and give the bits of a larger
  /// machine; more than 4 for each core, and more than 16, are refused.
  int threads = 0;
  /// Most bytes of the arena. A plan that needs more computes values again where it would keep
  /// them, those that cost the least time for their bytes: the same bits, and
  /// `PlanReport::recomputed` tells each with its price. If that is not enough, compile refuses,
  /// and says the smallest arena that it found.
  std::optional<std::size_t> memory_budget = {};
  /// False: a plan that needs more than the budget is refused at once.
  bool recompute_to_fit = true;
  /// How long each of the planner's three searches for a smaller arena may take, for each order
  /// that it weighs: a billion is about a second. They then go on to the smallest that they find,
  /// of orders that lower the fullest moment by whatever little; so on a device too, if nothing is
  /// guarded there. Absent: they end within 1 % of the lower bound, or after about half a second
  /// each; 0: it does not search.
  std::optional<std::size_t> plan_work = {};
  /// Paths of nodes, or above nodes, that training computes once more for the gradients that read
  /// them, in place of keeping what they made: `{"tower/0", "tower/1"}`. A path may be a glob, as
  /// in Graph::freeze: `{"tower/*"}`. Each scope that it finds is computed again as one. Less
  /// memory for more time, the same bits (activation checkpointing; Chen et al., 2016). `eager`
  /// keeps all.
  std::vector<std::string> recompute = {};
  Tune tune = Tune::measure;
  /// The tuning file; empty: METRONOME_TUNING, else `metronome/tuning.json` in the user's cache.
  /// One that is damaged is set aside, as FILE.damaged, with a warning.
  std::string tuning_file = {};
  /// Report the first node that makes a number that is not finite (`Executable::fault`), on every
  /// target by the same rule: a NaN if nothing that the node reads holds one, an infinity if
  /// nothing that it reads holds an infinity or a NaN. So masks of -inf pass. No node makes what
  /// comes from outside (inputs, storages, constants): a NaN there is reported for the first node
  /// that reads it, an infinity not at all.
  bool watch = false;
  /// On a CPU: the family that runs every op for which it has a kernel, neither timed nor looked up
  /// in the tuning file; `usual`: METRONOME_KERNELS (own, mkl or onednn), else none is preferred.
  Family kernels = Family::usual;
  /// Ops of one's own that have kernels (ops/own/own_ops.h): `own_ops<MyOp, MyOpGrad>()`. One that
  /// is made of others, by `lower`, need not be named.
  OwnOps ops = {};
  /// The ranks that run the graph together, each in a process of its own; all compile the same
  /// graphs in the same order. A `World` (distributed/world/world.h) stands for them. Required for
  /// a graph with `mt::all_reduce`, `mt::broadcast` and their like.
  std::shared_ptr<const executor::Ranks> world = {};
  /// The ranks, as `world`, of a training that is data parallel: the declared batch is each rank's
  /// own, and the loss, a mean over its rows, and the gradients of parameters become their means
  /// over the ranks before anything reads them: clipping, the optimizer, `read`. Parameters, states
  /// and counters begin as rank 0's. So n ranks train as one process does with their batches as
  /// one, as far as rows do not meet inside of the model: batch norm's statistics are each rank's
  /// own (`mt::sync_batch_norm` joins them). A loss that is a sum is divided by the ranks, too.
  std::shared_ptr<const executor::Ranks> data_parallel = {};
  /// Checks only: after each kernel, fill the arena bytes of values that have died with NaN.
  bool poison = false;
  /// Checks only: who is shown each node as it runs (executor/engine/observer.h), by `stepwise`,
  /// on a device too, and by `eager` on a CPU, which shows results alone. RunError for other
  /// targets.
  std::shared_ptr<Observer> observer = {};
};

/// A place and a way to run steps: made by `cpu_replay()`, `cuda_graph()` and others
/// (executor/compile/targets.h).
struct Target {
  /// Opens the back end for one graph, which messages name. Throws RunError if the machine
  /// lacks what the target asks for. `options.threads` is one or more.
  using Opener = std::unique_ptr<executor::Backend> (*)(const Target& target,
                                                        const CompileOptions& options,
                                                        const std::string& graph);
  Opener open = nullptr;
  Device device = {};
  CudaOptions cuda = {};
  /// For eager: inputs of four dimensions are laid out as libtorch's channels_last, which its
  /// convolutions, norms and pools keep to.
  bool channels_last = false;
  /// In place of a device: what records its calls, or plays them elsewhere.
  std::shared_ptr<CudaDriver> driver = {};
};

}  // namespace metronome
