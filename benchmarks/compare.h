// Planned steps beside libtorch's eager ones: the same model, data, threads and precision in one
// process. The result is checked first and timed after.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "benchmarks/agreement.h"
#include "benchmarks/statistics.h"
#include "models/models.h"

namespace metronome::benchmarks {

struct CompareOptions {
  models::Scale scale = models::Scale::small;
  int threads = 1;  ///< of both contestants
  int rounds = 21;  ///< at least kFewestRounds
};

/// Below it a median of ratios says too little.
constexpr int kFewestRounds = 7;

/// Planned against eager. `even`: slower by at most 5 %, and within two spreads of equal.
enum class Verdict { faster, even, slower };

std::string_view name_of(Verdict verdict);

/// From the ratios eager / planned of each round.
Verdict verdict_of(const Samples& ratios);

struct Comparison {
  std::string model;
  models::Scale scale = models::Scale::small;
  int threads = 1;

  Samples eager_ms;  ///< a step, the loss read after each
  Samples planned_ms;
  Samples ratios;           ///< eager / planned of each round
  Samples eager_unread_ms;  ///< the loss never read
  Samples planned_unread_ms;
  Verdict verdict = Verdict::even;

  double compile_s = 0;
  std::size_t kernels_declared = 0;
  std::size_t kernels_planned = 0;
  std::size_t arena_bytes = 0;
  std::size_t lower_bound_bytes = 0;
  std::size_t eager_peak_bytes = 0;  ///< of tensors made during steps
  double library_share = 0;          ///< GEMMs alone, as planned, over a planned step
  Agreement agreement;

  /// Median of eager over median of planned.
  double ratio() const { return eager_ms.median() / planned_ms.median(); }
  /// Agrees, and at small scale is not below `kFloor` of eager's speed.
  bool acceptable() const;
};

/// At small scale a ratio below it fails a run: low, since a busy machine is noisy.
constexpr double kFloor = 0.8;

/// Sets libtorch's thread count, checks, and times. `progress` is told what begins.
Comparison compare_model(const models::ModelEntry& entry, const CompareOptions& options,
                         const std::function<void(std::string_view)>& progress);

}  // namespace metronome::benchmarks
