// A program that is linked with //:metronome alone: it runs on a CPU, and is told what else to
// link.
#include <doctest/doctest.h>

#include <string>

#include "executor/metronome.h"
#include "tests/error_of.h"

namespace metronome::testing::cpu_alone_test {
namespace {

std::string refusal(const Graph& g, const Target& target) {
  return tests::error_of<RunError>([&] { compile(g, target); });
}

TEST_CASE("a program for a CPU alone runs, and other targets say what it must be linked with") {
  Graph g("alone");
  const Value x = g.parameter("x", Type{f32, {2}}, {});
  g.output("y", x * 2.0);
  for (const Target& target : {cpu_replay(), stepwise()}) {
    Executable step = compile(g, target, {.modes = {evaluate}, .tune = Tune::off});
    step.evaluate();
    CHECK(step.report().plan(evaluate).kernels > 0);
  }
  const auto without = [](const std::string& what, const std::string& with) {
    return "graph \"alone\": this program is linked without " + what +
           "; let its Bazel target depend on @metronome//:" + with + " too";
  };
  CHECK(refusal(g, eager()) == without("libtorch's ops", "eager"));
  CHECK(refusal(g, cuda_graph()) == without("CUDA", "cuda"));
  CHECK(refusal(g, stepwise(cuda_device())) == without("CUDA", "cuda"));
  CHECK(refusal(g, null()) == without("CUDA", "cuda"));
}

}  // namespace
}  // namespace metronome::testing::cpu_alone_test
