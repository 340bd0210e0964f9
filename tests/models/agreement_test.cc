#include "benchmarks/agreement.h"

#include "models/models.h"
#include "tests/doctest.h"

namespace metronome::agreement_test {
namespace {

using models::Scale;

TEST_CASE("in f64 every loss, gradient and parameter of ten steps is eager's") {
  for (const models::ModelEntry& entry : models::all_models()) {
    const auto agreement = benchmarks::agreement_f64(entry, Scale::small, 1);
    CAPTURE(entry.name);
    CHECK_MESSAGE(agreement.agree, agreement.disagreement);
    CHECK(agreement.losses.size() == 10);
    CHECK(agreement.planned == "cpu_replay");
    CHECK(agreement.eager == "eager");
  }
}

TEST_CASE("in f32 each of ten steps is eager's from the same storage") {
  for (const models::ModelEntry& entry : models::all_models()) {
    const auto agreement = benchmarks::agreement_f32(entry, Scale::small, 1);
    CAPTURE(entry.name);
    CHECK_MESSAGE(agreement.agree, agreement.disagreement);
    CHECK(agreement.losses.size() == 10);
    CHECK(agreement.losses.back() != agreement.losses.front());
  }
}

}  // namespace
}  // namespace metronome::agreement_test
