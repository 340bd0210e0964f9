// Draws of what cannot be: each goes on, and is told of as an index out of range is.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "ops/reference/elements.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/told.h"

namespace metronome::tests::impossible_draws_test {
namespace {

Value kept(Value x) { return bernoulli(x, "keep", {}, kHere); }
Value action(Value x) { return categorical(x, "action", {}, kHere); }
Value chosen(Value x) { return multinomial(x, 2, "chosen", {}, kHere); }
/// A class is legal if its number is above 0.
Value legal(Value x) {
  return distributions::Categorical{x * 0.0, x > 0.0}.sample("action", {}, kHere);
}

/// A draw from two rows of three numbers, and the fault that it tells of.
struct Impossible {
  const char* name;
  std::function<Value(Value)> draw;
  std::vector<double> numbers;
  std::string told;
};

const std::string kKept =
    "random {uniform of probabilities} \"bernoulli/keep/random\" (train.cc:12): ";
const std::string kAction =
    "random {gumbel of logits} \"categorical/action/random\" (train.cc:12): ";
const std::string kChosen =
    "random {gumbel of weights} \"multinomial/chosen/random\" (train.cc:12): ";

std::vector<Impossible> impossible() {
  return {
      {"above 1", kept, {0, 1, 0.5, 1, 1.5, 0}, kKept + "probability 1.5 is out of range 0 to 1"},
      {"the least of several",
       kept,
       {7, 1, kNaN, 1, -0.25, -kInfinity},
       kKept + "probability -inf is out of range 0 to 1"},
      {"the least beside a NaN",
       kept,
       {kNaN, 1, 2, 1, 3, 0.5},
       kKept + "probability 2 is out of range 0 to 1"},
      {"a NaN", kept, {0, 1, 0.5, 1, 0, -kNaN}, kKept + "probability nan is out of range 0 to 1"},
      {"no class",
       action,
       {0, 1, 2, -kInfinity, -kInfinity, -kInfinity},
       kAction + "largest logit -inf is not finite"},
      {"a logit of NaN",
       action,
       {0, kNaN, 2, -kInfinity, 3, 0},
       kAction + "largest logit nan is not finite"},
      {"an infinite logit",
       action,
       {0, 1, 2, 0, kInfinity, -kInfinity},
       kAction + "largest logit inf is not finite"},
      {"no legal class", legal, {1, 0, 1, 0, -1, 0}, kAction + "largest logit -inf is not finite"},
      {"no weight", chosen, {0, 0, 0, 1, 1, 1}, kChosen + "fewer weights above 0 than draws"},
      {"a negative weight", chosen, {1, 2, 3, 1, -0.5, 1}, kChosen + "weight -0.5 is below 0"},
      {"a weight of NaN",
       chosen,
       {1, 2, 3, 1, 1, kNaN},
       kChosen + "largest weight nan is not finite"},
      {"an infinite weight",
       chosen,
       {kInfinity, 2, 3, 1, 1, 1},
       kChosen + "largest weight inf is not finite"},
  };
}

at::Tensor rows_of(const std::vector<double>& numbers, Element element) {
  return vector_of(numbers).reshape({2, 3}).to(to_torch(element));
}

TEST_CASE("what cannot be drawn is told of with its value, by every executor") {
  for (const Impossible& wrong : impossible()) {
    for (const Element element : {f32, f64}) {
      CAPTURE(wrong.name);
      CAPTURE(std::string(name_of(element)));
      Graph g("drawn");
      const Value x = g.input("x", element, {2, 3});
      g.output("y", wrong.draw(x));
      const Feeds good = {{x, rows_of({1, 0, 0.5, 0.25, 1, 1}, element)}},
                  bad = {{x, rows_of(wrong.numbers, element)}};
      CHECK(told(g, {good}) == "nothing");
      CHECK(told(g, {good, bad, good}) == wrong.told);
      CHECK(told_by_eager(g, {good, good}) == "nothing");
      CHECK(told_by_eager(g, {good, bad}) == "RunError: graph \"drawn\": " + wrong.told);
    }
  }
}

TEST_CASE("the ends of what can be drawn are no fault: 0 and 1, masked classes, weights of 0") {
  const std::vector<Impossible> possible = {
      {"certain", kept, {0, 1, -0.0, 1, 0, 1}, "nothing"},
      {"one class", action, {-kInfinity, 0, -kInfinity, 1e308, -1e308, 0}, "nothing"},
      {"tiny weights", chosen, {0, 5e-324, 1e-310, 1e308, 1e308, 0}, "nothing"},
  };
  for (const Impossible& right : possible) {
    CAPTURE(right.name);
    Graph g("drawn");
    const Value x = g.input("x", f64, {2, 3});
    g.output("y", right.draw(x));
    const Feeds feeds = {{x, rows_of(right.numbers, f64)}};
    CHECK(told(g, {feeds}) == right.told);
    CHECK(told_by_eager(g, {feeds}) == right.told);
  }
}

TEST_CASE("a step goes on with what cannot be drawn") {
  Graph g("drawn");
  const Value x = g.input("x", f64, {2, 3});
  g.output("kept", kept(x));
  g.output("action", action(where(x > 0.0, x, -kInfinity)));
  const Feeds feeds = {{x, rows_of({2, -1, kNaN, 0, 0, 0}, f64)}};
  for (Executable& e : on_planned_targets(g)) {
    e.run(feeds);
    CHECK(at::equal(e.read("kept"), rows_of({1, 0, 0, 0, 0, 0}, f64)));
    CHECK(at::equal(e.read("action"), integers({0, 0})));
  }
}

TEST_CASE("a branch that a step skips draws nothing, and tells of nothing") {
  Graph g("branches");
  const Value x = g.input("x", f64, {2, 3}), which = g.input("which", i32, {});
  g.output("y", x.choose(which, {kept, tanh}, kHere));
  const auto step = [&](int branch) {
    return Feeds{{x, rows_of({0, 1, 0.5, 1, 1.5, 0}, f64)},
                 {which, at::full({}, branch, at::TensorOptions(at::kInt))}};
  };
  const std::string text =
      "random {uniform of probabilities} \"choose/0/bernoulli/keep/random\" (train.cc:12): "
      "probability 1.5 is out of range 0 to 1";
  CHECK(told(g, {step(1), step(1)}) == "nothing");
  CHECK(told(g, {step(1), step(0)}) == text);
  CHECK(told_by_eager(g, {step(1), step(1)}) == "nothing");
  CHECK(told_by_eager(g, {step(1), step(0)}) == "RunError: graph \"branches\": " + text);
}

TEST_CASE("of many draws in threads it is the least number that is told of") {
  constexpr std::int64_t kMany = 70001;
  Graph g("many");
  const Value x = g.input("x", f32, {kMany});
  g.output("y", kept(x));
  at::Tensor numbers = at::full({kMany}, 0.5, at::kFloat);
  numbers[100] = 2;
  numbers[kMany - 1] = -2;
  numbers[kMany / 2] = -1;
  CHECK(told(g, {{{x, numbers}}}) == kKept + "probability -2 is out of range 0 to 1");
}

}  // namespace
}  // namespace metronome::tests::impossible_draws_test
