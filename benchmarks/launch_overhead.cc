// The cost to launch a kernel: a replay of a chain of tiny ops beside the same libtorch calls.
//
//   x [1, 16] -- softmax -- softmax -- ... -- y     256 of them
//
// Each kernel does next to nothing, so what is left is the walk over the kernels on one side, and
// dispatch, checks and an allocation per call on the other.
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "benchmarks/machine.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

int main() {
  constexpr int kLength = 256, kRounds = 31, kSteps = 200;
  at::set_num_threads(1);
  fmt::print("{}\n", bench::to_string(bench::this_machine()));

  mt::Graph graph("chain");
  mt::Value x = graph.input("x", mt::f32, {1, 16});
  graph.output("y", x.repeat(kLength, mt::softmax()));
  mt::Executable replay = mt::compile(graph, mt::cpu_replay(), {.threads = 1});
  const at::Tensor fed = at::randn({1, 16});
  replay.run({{x, fed}});

  const c10::InferenceMode no_autograd;
  const auto planned = [&](int steps) {
    for (int i = 0; i < steps; ++i) replay.run();
  };
  const auto libtorch = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      at::Tensor h = fed;
      for (int k = 0; k < kLength; ++k) h = at::softmax(h, -1);
    }
  };
  const bench::Side a{libtorch, kSteps}, b{planned, kSteps};
  bench::interleave(a, b, 2);  // warm-up
  bench::Rounds rounds = bench::interleave(a, b, kRounds);

  const auto print = [](const char* who, const bench::Samples& ms, std::size_t calls) {
    const double ns = 1e6 / static_cast<double>(calls);
    fmt::print("{:<28} {:8.1f} +- {:.1f} ns\n", who, ms.median() * ns, ms.spread() * ns);
  };
  const std::size_t kernels = replay.report().plan(mt::train).kernels;
  fmt::print("a chain of {} softmax of f32[1, 16], {} kernels planned\n", kLength, kernels);
  print("libtorch, a call", rounds.a, kLength);
  print("replay, a kernel", rounds.b, kernels);
  fmt::print("ratio {:.2f} +- {:.2f}\n", rounds.ratios().median(), rounds.ratios().spread());
}
