// Where a step's time goes, as tables and as JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/metronome.h"

namespace metronome::commands {

/// Of some training steps, kernel by kernel.
struct Profile {
  struct Kernel {
    std::string name;         ///< `layer_norm "tower/0/layer_norm" (tower.cc:50)`
    double microseconds = 0;  ///< in all steps
    int runs = 0;             ///< in all steps: what data decide may run in some of them
    TimedBy by = TimedBy::host_clock;
  };
  std::string where;  ///< "2 threads", or the device's name
  int steps = 0;
  std::vector<Kernel> kernels;  ///< each once, in the order in which they first ran
};

/// Times the kernels of some training steps on random numbers in `inputs` (integers are zero).
Profile profile_of(Executable& executable, std::span<const Value> inputs);

/// Two tables: by kind of kernel, and the longest ones.
std::string to_string(const Profile& profile);

/// {"steps": 20, "kernels": [{"kernel": "gelu \"gelu\" (mlp.cc:5)", "us": 1.2, "runs": 1.0,
/// "timed_by": "copies in a graph"}, ...]}: every kernel, its microseconds and its runs a step.
std::string to_json(const Profile& profile);

}  // namespace metronome::commands
