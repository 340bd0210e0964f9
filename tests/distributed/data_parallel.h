// Data parallel training on ranks that are threads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/join/ranks.h"
#include "executor/metronome.h"
#include "tests/distributed/on_ranks.h"

namespace metronome::distributed {

using Own = std::shared_ptr<Communicator>;

/// No error of any rank.
inline std::vector<std::string> nothing(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

/// Untuned, of a training whose gradients are joined over the ranks.
inline CompileOptions options(const Own& own, std::vector<Mode> modes = {Mode::train}) {
  return {
      .modes = std::move(modes), .threads = 1, .tune = Tune::off, .data_parallel = ranks_over(own)};
}

}  // namespace metronome::distributed
