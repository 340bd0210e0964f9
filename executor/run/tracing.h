// The steps that are traced, as they run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/record/trace.h"

namespace metronome::executor {

class Tracing {
 public:
  /// The next `steps` steps, added to `trace`.
  Tracing(int steps, Trace trace) : left_(steps), trace_(std::move(trace)) {}

  bool wants_step() const { return left_ > 0; }
  const Trace& trace() const { return trace_; }

  void begin_step(std::int64_t number, Mode mode) {
    step_ = {.number = number, .mode = mode, .begin = now()};
  }
  void begin_kernels() { step_.kernels_begin = now(); }
  /// A step that failed has no end, and leaves nothing.
  void end_step(std::vector<KernelRun> runs) {
    double end = step_.kernels_begin;
    for (KernelRun& run : runs) {
      const double us = run.kernel.microseconds;
      end = std::max(end, step_.kernels_begin + run.begin + us);
      const auto [place, added] = known_.emplace(run.kernel.kernel, trace_.kernels.size());
      if (added) {
        trace_.kernels.push_back(std::move(run.kernel));
        trace_.kernels.back().microseconds = 0;
      }
      step_.runs.push_back({place->second, step_.kernels_begin + run.begin, us});
    }
    step_.microseconds = end - step_.begin;
    trace_.steps.push_back(std::move(step_));
    --left_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  double now() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  }

  int left_;
  Trace trace_;
  TracedStep step_;
  std::unordered_map<std::string, std::size_t> known_;  ///< by `KernelTime::kernel`
  Clock::time_point start_ = Clock::now();
};

}  // namespace metronome::executor
