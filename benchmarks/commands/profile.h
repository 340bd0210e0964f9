// The times of the kernels of a shipped model's step.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "executor/metronome.h"

namespace metronome::commands {

/// A step as users run it, and where it spends its time.
struct ProfiledStep {
  double microseconds = 0;  ///< a replayed step whose loss is read; the median of some
  Profile kernels;
};

/// Profiles some training steps on random numbers in `inputs`, integers even below `vocabulary`:
/// kernels that look rows up take longer where all are the same.
ProfiledStep profile_of(Executable& executable, const Value& loss, std::span<const Value> inputs,
                        std::int64_t vocabulary);

/// Traces some training steps on what `inputs` hold.
Trace trace_of(Executable& executable);

/// The tables of the kernels, and how much longer a step takes than they do.
std::string to_string(const ProfiledStep& step);

}  // namespace metronome::commands
