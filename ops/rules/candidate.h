// One way to run an op, whatever the back end.
#pragma once

#include <cstddef>
#include <string>

namespace metronome {

struct Candidate {
  /// On a CPU "direct", "mkl", "onednn" or "aten"; on a GPU "own", or "lt" and an algorithm.
  std::string name = "direct";
  std::size_t scratch_bytes = 0;  ///< needed while it runs; aligned as the arena's values are
  int threads = 1;                ///< CPU threads it runs on
};

}  // namespace metronome
