// What an observer sees of a step, and which targets have none.
#include "executor/engine/observer.h"

#include <ATen/ops/full.h>

#include <string>
#include <vector>

#include "executor/metronome.h"
#include "tests/doctest.h"

namespace metronome::observer_test {
namespace {

struct Log final : Observer {
  std::vector<std::string> before_nodes, after_nodes;
  float add_to_exp = 0;

  void before(const ObservedNode& seen) override {
    before_nodes.push_back(std::string(seen.node().op->name()));
    if (seen.node().op->name() == "exp") {
      *reinterpret_cast<float*>(seen.operands[0].data) += add_to_exp;
    }
  }
  void after(const ObservedNode& seen) override {
    after_nodes.push_back(std::string(seen.node().op->name()));
    CHECK(seen.operands.size() == seen.node().inputs.size());
    CHECK(seen.results.size() == seen.node().types.size());
    if (seen.node().op->name() == "exp") {
      last = *reinterpret_cast<const float*>(seen.results[0].data);
    }
  }
  float last = 0;
};

Graph exp_of_square() {
  Graph g("observed");
  g.output("y", exp(square(g.input("x", f32, {1}))));
  return g;
}

TEST_CASE("stepwise shows each node before and after it runs, and what is written is read") {
  const Graph g = exp_of_square();
  const auto log = std::make_shared<Log>();
  Executable step = compile(g, stepwise(), {.observer = log});
  step.run({{"x", at::full({1}, 0.5f)}});
  CHECK(log->before_nodes == std::vector<std::string>{"square", "exp", "increment"});
  CHECK(log->after_nodes == log->before_nodes);
  CHECK(log->last == doctest::Approx(1.2840254));  // e^0.25
  log->add_to_exp = 1;
  step.run({{"x", at::full({1}, 0.5f)}});
  CHECK(step.read("y").item<float>() == doctest::Approx(3.4903429));  // e^1.25
}

TEST_CASE("eager shows the results of declared nodes") {
  const Graph g = exp_of_square();
  const auto log = std::make_shared<Log>();
  compile(g, eager(), {.observer = log}).run({{"x", at::full({1}, 0.5f)}});
  CHECK(log->before_nodes.empty());
  CHECK(log->after_nodes == std::vector<std::string>{"square", "exp"});
  CHECK(log->last == doctest::Approx(1.2840254));
}

TEST_CASE("a target that shows nothing refuses an observer") {
  const Graph g = exp_of_square();
  CHECK_THROWS_WITH_AS(compile(g, cpu_replay(), {.observer = std::make_shared<Log>()}),
                       "graph \"observed\": CompileOptions::observer is shown the nodes of "
                       "stepwise() and eager() on a CPU alone, and the target is cpu_replay",
                       RunError);
}

}  // namespace
}  // namespace metronome::observer_test
