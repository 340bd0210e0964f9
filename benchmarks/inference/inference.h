// Planned evaluations beside libtorch's eager ones in inference mode: what a model answers, for one
// row and for a batch. The result is checked first and timed after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/compare.h"
#include "benchmarks/machine.h"
#include "benchmarks/statistics.h"
#include "models/models.h"

namespace metronome::benchmarks {

struct Inference {
  std::string model;
  models::Scale scale = models::Scale::small;
  std::int64_t rows = 1;
  int threads = 1;
  /// An evaluation that is fed new numbers, of which the answer's first number is read.
  Samples eager_ms, planned_ms;
  Samples ratios;          ///< eager / planned of each round
  std::string eager_form;  ///< as in `Comparison`
  double compile_s = 0;
  std::size_t kernels = 0;
  /// The largest difference of an answer's number in ten batches, relative to the batch's largest.
  double max_difference = 0;
  bool agree = true;  ///< it is at most 1e-5

  double ratio() const { return eager_ms.median() / planned_ms.median(); }
  /// Agrees, and at small scale is not below `kFloor` of eager's speed.
  bool acceptable() const;
};

/// The largest difference, relative to the largest number of `b`. Infinity where the sizes differ,
/// or a number is not finite: two such answers never agree.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);

/// Sets libtorch's thread count, checks, and times; on a CPU. `rows`: 0 for the scale's batch.
/// `progress` is told what begins.
Inference infer_model(const models::ModelEntry& entry, const CompareOptions& options,
                      std::int64_t rows, const std::function<void(std::string_view)>& progress);

/// The head of a table, two lines, and a row.
std::string inference_head();
std::string inference_row(const Inference& inference);

/// {"machine": {...}, "results": [...]}, indented.
std::string to_json(const Machine& machine, std::span<const Inference> inferences);

}  // namespace metronome::benchmarks
