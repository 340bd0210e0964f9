// An account of a planned step on a CPU: the least time that it can take, and what passes save.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/compare.h"
#include "benchmarks/statistics.h"
#include "models/models.h"

namespace metronome::benchmarks {

/// Counted from the declared graph. A step may fall below it where structure saves products.
struct CpuFloor {
  double products_ms = 0;      ///< matrix products alone, each with the kernel that compile chooses
  double convolutions_ms = 0;  ///< convolutions alone, in the layout in which each is fastest
  double bytes = 0;            ///< that everything else must move (`bytes_moved`)
  double bytes_per_ms = 0;     ///< of a copy of what the step works on, read and written

  double ms() const { return products_ms + convolutions_ms + bytes / bytes_per_ms; }
};

/// `working_bytes`: what the step works on, which may lie in a cache. `threads`: as many as
/// libtorch uses, which copies.
CpuFloor cpu_floor(const Graph& declared, std::size_t working_bytes, int threads);

/// The step planned without a pass.
struct PassWorth {
  std::string_view pass;
  Samples ms;
  Samples ratios;  ///< without the pass / with all of them, of each round
  std::size_t kernels = 0;
  std::size_t arena_bytes = 0;
};

struct Explanation {
  std::string model;
  CpuFloor floor;
  Samples planned_ms;
  std::size_t kernels = 0;
  std::size_t arena_bytes = 0;
  std::vector<PassWorth> passes;
};

/// Runs on a CPU; the options' device is not looked at. Passes that METRONOME_WITHOUT leaves out
/// are missing in all of it. `progress` is told what begins.
Explanation explain(const models::ModelEntry& entry, const CompareOptions& options,
                    const std::function<void(std::string_view)>& progress);

/// A table of several lines.
std::string to_string(const Explanation& explanation);

}  // namespace metronome::benchmarks
