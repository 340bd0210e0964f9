// The error that a call told its caller.
#pragma once

#include <functional>
#include <string>

#include "graph/ir/error.h"

namespace metronome::tests {

/// The text of the RunError that a call throws, or "nothing".
inline std::string run_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const RunError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace metronome::tests
