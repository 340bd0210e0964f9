// Steps as they ran, kernel by kernel, for a trace viewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/engine/profile.h"
#include "graph/ir/mode.h"

namespace metronome {

/// A kernel of `Trace::kernels`, run once.
struct TracedRun {
  std::size_t kernel = 0;
  double begin = 0;         ///< microseconds from the beginning of the trace
  double microseconds = 0;  ///< how long it took
};

struct TracedStep {
  std::int64_t number = 0;  ///< as `Executable::steps` counts
  Mode mode = Mode::train;
  double begin = 0;                  ///< microseconds from the beginning of the trace
  double kernels_begin = 0;          ///< then what was fed had been copied
  double microseconds = 0;           ///< of the whole step: until its last kernel ends
  std::vector<TracedRun> runs = {};  ///< in the order in which they ran
};

/// Steps between `Executable::start_trace` and its last step.
struct Trace {
  std::string graph = {};
  std::string target = {};  ///< "cpu_replay"
  std::string where = {};   ///< "2 threads", or the device's name
  /// Each once, with what a run of it reads, writes and computes; its time is in `steps`.
  std::vector<KernelTime> kernels = {};
  std::vector<TracedStep> steps = {};
};

/// JSON in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a
/// row of the host's steps, and a row of kernels inside the scopes of their paths; more rows where
/// kernels overlap.
std::string to_json(const Trace& trace);

}  // namespace metronome
