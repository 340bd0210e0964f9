#include "tests/doctest.h"
#include "tests/models/runs.h"

namespace metronome::replay_test {
namespace {

using tests::difference;
using tests::run;

TEST_CASE("ten replayed steps are the same kernels one by one in fresh memory, bit for bit") {
  for (const models::ModelEntry& entry : models::all_models()) {
    CAPTURE(entry.name);
    CHECK(difference(run(entry, cpu_replay(), {}), run(entry, stepwise(), {})) == "");
  }
}

TEST_CASE("two runs of one seed are equal in every bit, and another seed gives another run") {
  for (const models::ModelEntry& entry : models::all_models()) {
    CAPTURE(entry.name);
    const tests::Trace first = run(entry, cpu_replay(), {.seed = 3});
    CHECK(difference(first, run(entry, cpu_replay(), {.seed = 3})) == "");
    CHECK(difference(first, run(entry, cpu_replay(), {.seed = 4})) == "the loss of step 0");
  }
}

TEST_CASE("no kernel reads what has died: filling it with NaN changes nothing") {
  for (const models::ModelEntry& entry : models::all_models()) {
    CAPTURE(entry.name);
    CHECK(difference(run(entry, cpu_replay(), {}), run(entry, cpu_replay(), {.poison = true})) ==
          "");
  }
}

}  // namespace
}  // namespace metronome::replay_test
