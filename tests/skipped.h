// Test cases that this build or this machine cannot run.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

/// A case that counts as skipped, and says why in the test's log, where `./metronome test` looks
/// and counts. doctest's own count of skipped cases has those of other files that a run leaves out.
#define METRONOME_SKIPPED(what, reason)                                       \
  [[maybe_unused]] static const int DOCTEST_ANONYMOUS(metronome_said) =       \
      std::getenv("METRONOME_RERUN") != nullptr                               \
          ? 0                                                                 \
          : std::printf("skipped: %s (%s)\n", static_cast<const char*>(what), \
                        static_cast<const char*>(reason));                    \
  TEST_CASE(what* doctest::skip()) {}
