// The time that the kernels of steps take, each and added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "executor/support/timed_by.h"
#include "graph/ir/mode.h"

namespace metronome {

/// The part of a step that a kernel is of.
enum class Phase : std::uint8_t {
  forward,
  backward,
  update,    ///< clipping, the optimizer, averages, counters, copies of assigned values
  executor,  ///< its own work: on a device inputs that it loads, numbers that it stores
};
/// "forward", "backward", "update" or "executor".
std::string_view name_of(Phase phase);

/// One kernel of steps that were timed kernel by kernel.
struct KernelTime {
  std::string
      kernel;      ///< `layer_norm "tower/3/layer_norm" (tower.cc:50)`, or what the executor does
  std::string op;  ///< "layer_norm"; of a fused group "group"
  std::string members = {};  ///< of a fused group its ops: "mul (2), add, layer_norm"
  std::string path = {};     ///< "tower/3/layer_norm"; of gradients "tower/3/layer_norm.grad/..."
  /// The line of the user's that asked for it, "tower.cc:50"; of a group that of its reduction or
  /// of its last member. Empty where nobody knows.
  std::string line = {};
  Phase phase = Phase::executor;
  /// A step: the median of its runs, times `runs`. A mean would show what other programs took from
  /// a few runs, and the least would be that of the least data.
  double microseconds = 0;
  double runs = 1;   ///< a step: what data decide may run in some steps only
  double bytes = 0;  ///< a run: of its operands and its results, each once
  double flops = 0;  ///< a run, as `Op::flops` counts them
  TimingMethod by = TimingMethod::host_clock;

  bool operator==(const KernelTime&) const = default;
};

/// A kernel as one step ran it.
struct KernelRun {
  KernelTime kernel;  ///< its time is this run's
  double begin = 0;   ///< microseconds from the beginning of the step's first kernel
};

struct Profile {
  std::string graph;
  std::string where;  ///< "2 threads", or the device's name
  Mode mode = Mode::train;
  int steps = 0;
  std::size_t plan = 0;             ///< the one that ran, among `Report::plans`
  std::vector<KernelTime> kernels;  ///< each once, in the order in which they first ran
  /// Medians of a captured step, by a device's records: between the first kernel and the last none
  /// ran for so long; and so much does the sum of kernels count more than once, as several ran. 0
  /// where kernels were timed one by one.
  double idle_microseconds = 0, overlap_microseconds = 0;
  /// Other programs took more than a fifth of the cores meanwhile, so that medians are too long,
  /// too. False where the host's clock timed no kernel.
  bool under_load = false;

  double microseconds() const;  ///< a step, in all kernels
  /// About how long a step takes from the beginning of its first kernel to the end of its last, as
  /// these medians have it; the same as `microseconds` where kernels were timed one by one.
  double step_microseconds() const {
    return microseconds() + idle_microseconds - overlap_microseconds;
  }
};

/// Some kernels together.
struct ProfilePart {
  std::string name;
  double microseconds = 0;  ///< a step, as all of these
  double runs = 0;
  double bytes = 0;
  double flops = 0;
};

/// By op (groups by their members), by the user's line, by part of the step, and by scope (the
/// first `depth` parts of the paths of the forward pass, to which gradients and updates are
/// counted): each longest first. Code that is unrolled has one scope at depth 1 and few lines.
std::vector<ProfilePart> by_op(const Profile& profile);
std::vector<ProfilePart> by_line(const Profile& profile);
std::vector<ProfilePart> by_phase(const Profile& profile);
std::vector<ProfilePart> by_scope(const Profile& profile, int depth = 1);

/// Tables by part of the step, by scope (of depth 1), of the longest lines, ops and kernels.
std::string to_string(const Profile& profile);

}  // namespace metronome
