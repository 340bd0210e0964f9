// The paths that a pattern finds.
#include "graph/builder/glob.h"

#include <doctest/doctest.h>

namespace metronome::testing::glob_test {
namespace {

TEST_CASE("a path finds itself and what lies below, and nothing beside") {
  CHECK(glob_finds("tower", "tower/3/linear/weight"));
  CHECK(glob_finds("tower/3/linear/weight", "tower/3/linear/weight"));
  CHECK_FALSE(glob_finds("tower", "towers/weight"));
  CHECK_FALSE(glob_finds("tower/3", "tower/30/weight"));
  CHECK_FALSE(glob_finds("linear", "tower/3/linear/weight"));
  CHECK_FALSE(glob_finds("tower/3/linear/weight/more", "tower/3/linear/weight"));
  CHECK_FALSE(glob_finds("", "weight"));
  CHECK_FALSE(glob_finds("tower/", "tower/weight"));
}

TEST_CASE("* and ? stand for letters of one part") {
  CHECK(glob_finds("tower/*/linear", "tower/3/linear/weight"));
  CHECK(glob_finds("tower/?", "tower/3/linear/weight"));
  CHECK(glob_finds("*/w*t", "linear/weight"));
  CHECK(glob_finds("l*n*r*", "linear_1/weight"));
  CHECK(glob_finds("*", "linear/weight"));
  CHECK(glob_finds("linear*", "linear/weight"));
  CHECK_FALSE(glob_finds("tower/?", "tower/13/weight"));
  CHECK_FALSE(glob_finds("tower*weight", "tower/weight"));
  CHECK_FALSE(glob_finds("*/*/*", "linear/weight"));
  CHECK_FALSE(glob_finds("?", ""));
}

TEST_CASE("** stands for any parts, also none") {
  CHECK(glob_finds("**", "weight"));
  CHECK(glob_finds("**/weight", "weight"));
  CHECK(glob_finds("**/weight", "tower/3/linear/weight"));
  CHECK(glob_finds("tower/**/weight", "tower/weight"));
  CHECK(glob_finds("tower/**/linear*/weight", "tower/3/a/linear_1/weight"));
  CHECK(glob_finds("**/3/**/bias", "tower/3/linear/bias"));
  CHECK_FALSE(glob_finds("**/weight", "tower/3/linear/bias"));
  CHECK_FALSE(glob_finds("tower/**/weight", "other/weight"));
  CHECK_FALSE(glob_finds("**/weight", "tower/weights"));
}

}  // namespace
}  // namespace metronome::testing::glob_test
