// Numbers of the exporting process, by which an exported library is checked where it was built.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/run/executable_impl.h"

namespace metronome::exported {

/// Rounds of steps: each makes one step of every plan, in their order.
inline constexpr int kCheckRounds = 3;

/// A hash of each array: of results behind each step, [round][plan][result], and of storages behind
/// all of them.
struct CheckNumbers {
  std::vector<std::uint64_t> results, storages;
};

/// Makes the steps by the executable's plans, over memory of their own. Inputs are filled as
/// check.c fills them (print_check.cc).
CheckNumbers check_numbers(Executable::Impl& step);

}  // namespace metronome::exported
