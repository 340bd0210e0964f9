// Planned steps beside libtorch's eager ones: the same model, data, threads and precision in one
// process. The result is checked first and timed after.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "benchmarks/agreement.h"
#include "benchmarks/floor/floor.h"
#include "benchmarks/statistics.h"
#include "executor/record/trace.h"
#include "models/models.h"

namespace metronome::benchmarks {

struct CompareOptions {
  models::Scale scale = models::Scale::small;
  int threads = 1;      ///< of both contestants
  int rounds = 21;      ///< at least kFewestRounds
  Device device = cpu;  ///< that both run on
  bool tf32 = false;    ///< TF32 products on a GPU, for both
  bool trace = false;   ///< some planned steps, after those that are timed
};

/// Below it a median of ratios says too little.
constexpr int kFewestRounds = 7;

/// Planned against eager. `even`: slower by at most 5 %, and within two spreads of equal.
enum class Verdict { faster, even, slower };

std::string_view name_of(Verdict verdict);

/// From the ratios eager / planned of each round.
Verdict verdict_of(const Samples& ratios);

/// Numbers that are measured on a GPU only.
struct DeviceNumbers {
  /// A step that is fed another batch each time, from page-locked memory of the host; the loss read
  /// after each.
  Samples eager_fed_ms;
  Samples planned_fed_ms;
  /// Only for a model with convolutions: `eager_ms` again, by engines of cuDNN that give the same
  /// bits each time, as planned steps do. `eager_ms` itself is as users run it: by whichever engine
  /// is fast.
  std::optional<Samples> eager_deterministic_ms;
  Samples host_us;  ///< that a planned step keeps the host, nothing else being in flight
  Floor floor;
  int graph_nodes = 0;
  std::vector<std::string> forms;  ///< that compile timed, as the report has them
  /// Parameters, moments, inputs and the most that a step needs, of libtorch's caching allocator
  /// and of the plan: both without handles, modules and graphs.
  std::size_t eager_bytes = 0;
  std::size_t planned_bytes = 0;
  std::size_t planned_other_bytes = 0;  ///< handles, modules and graphs
};

struct Comparison {
  std::string model;
  models::Scale scale = models::Scale::small;
  int threads = 1;

  /// A step, the loss read after each; each fed a batch, but on a GPU the batch lies there already.
  Samples eager_ms;
  Samples planned_ms;
  Samples ratios;           ///< eager / planned of each round
  Samples eager_unread_ms;  ///< the loss never read
  Samples planned_unread_ms;
  Verdict verdict = Verdict::even;

  std::string
      eager_form;  ///< the fastest of libtorch's settings (eager_form.h), by which it is timed
  double compile_s = 0;
  std::size_t kernels_declared = 0;
  std::size_t kernels_planned = 0;
  std::size_t arena_bytes = 0;
  std::size_t lower_bound_bytes = 0;
  std::size_t eager_peak_bytes = 0;  ///< of tensors made during steps
  double library_share = 0;          ///< GEMMs and convolutions, alone over a planned step
  Agreement agreement;
  bool tf32 = false;
  std::optional<DeviceNumbers> on_device;
  std::optional<Trace> trace;

  /// Median of eager over median of planned.
  double ratio() const { return eager_ms.median() / planned_ms.median(); }
  /// Agrees, and at small scale on a CPU is not below `kFloor` of eager's speed; on a GPU, where
  /// that is what is to be found out, any speed is a figure.
  bool acceptable() const;
};

/// At small scale a ratio below it fails a run: low, since a busy machine is noisy.
constexpr double kFloor = 0.8;

/// Sets libtorch's thread count, checks (in IEEE f32), and times. `progress` is told what begins.
/// Throws RunError where there is no such device.
Comparison compare_model(const models::ModelEntry& entry, const CompareOptions& options,
                         const std::function<void(std::string_view)>& progress);

}  // namespace metronome::benchmarks
