// What a graph is compiled for, and how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/passes/settings.h"

namespace metronome {

/// Whether kernels may be timed when a graph is compiled.
enum class Tune : std::uint8_t {
  measure,  ///< the tuning file's entry; without one, time the candidates and keep the choice there
  file,     ///< the tuning file's entry; without one, the fixed rule
  off,      ///< the fixed rule
};

struct Target {
  enum class Kind : std::uint8_t { cpu_replay, stepwise, eager };
  Kind kind = Kind::cpu_replay;
};

/// One walk over bound kernels in a planned arena.
Target cpu_replay();
/// The same kernels one by one, each value in memory of its own: for checking and debugging.
Target stepwise();
/// The declared graph op by op through libtorch, with its autograd and fused optimizers.
Target eager();

struct CompileOptions {
  std::vector<Mode> modes = {Mode::train};
  std::uint64_t seed = 0;
  /// Threads a kernel may use; 0: as many as libtorch uses (`at::get_num_threads`).
  int threads = 0;
  /// Most bytes of the arena; compile says the smallest that is feasible where it is exceeded.
  std::optional<std::size_t> memory_budget = {};
  Tune tune = Tune::measure;
  /// The tuning file; empty: METRONOME_TUNING, else `metronome/tuning.json` in the user's cache.
  std::string tuning_file = {};
  /// Checks only: after each kernel, fill the arena bytes of values that have died with NaN.
  bool poison = false;
};

}  // namespace metronome
