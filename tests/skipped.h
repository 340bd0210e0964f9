// Test cases that this build or this machine cannot run.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>

/// A case that counts as skipped, and says why in the test's log, where `./metronome test` looks.
#define METRONOME_SKIPPED(what, reason)                                                        \
  [[maybe_unused]] static const int DOCTEST_ANONYMOUS(metronome_said) = std::printf(           \
      "skipped: %s (%s)\n", static_cast<const char*>(what), static_cast<const char*>(reason)); \
  TEST_CASE(what* doctest::skip()) {}
