// Elements of two bytes that are not finite: who made them, by every executor in the same words.
#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/told.h"

namespace metronome::half_watch_test {
namespace {

TEST_CASE("a cast that overflows, and a NaN that is fed, are told of") {
  Graph g("watched");
  const LineScope scope(&g.emitter(), tests::kHere);
  const Value x = g.input("x", f32, {4}), y = g.input("y", bf16, {5});
  g.output("narrow", x.cast(f16));
  g.output("wide", y.cast(f64));
  const auto fed = [&](double number, double other) {
    return tests::Feeds{{x, at::full({4}, number, at::kFloat)},
                        {y, at::full({5}, other, at::kBFloat16)}};
  };
  CHECK(tests::told(g, {fed(65504, 1e38)}, true) == "nothing");
  const std::string made = "cast {f16} \"cast\" (train.cc:12): made an infinity";
  CHECK(tests::told(g, {fed(1, 1), fed(65520, 1)}, true) == made);
  CHECK(tests::told_by_eager(g, {fed(1, 1), fed(65520, 1)}, true) == made);
  const std::string read = "cast {f64} \"cast_1\" (train.cc:12): read a NaN from input \"y\"";
  CHECK(tests::told(g, {fed(1, tests::kNaN)}, true) == read);
  CHECK(tests::told_by_eager(g, {fed(1, tests::kNaN)}, true) == read);
  // Infinities that come from outside are nobody's.
  CHECK(tests::told(g, {fed(1, tests::kInfinity)}, true) == "nothing");
}

}  // namespace
}  // namespace metronome::half_watch_test
