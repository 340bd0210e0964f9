// How tests compile.
#pragma once

#include "executor/metronome.h"

namespace metronome::tests {

/// The plan's kernels run, not those that were the fastest here.
inline CompileOptions untuned() {
  CompileOptions options;
  options.tune = Tune::off;
  return options;
}

/// In one thread, besides: the same bits on every machine.
inline CompileOptions plain_options() {
  CompileOptions options = untuned();
  options.threads = 1;
  return options;
}

}  // namespace metronome::tests
