// Training steps over sequences that are long for a CPU, planned and eager, in interleaved rounds:
//
//   x [1, T, 512] -- multi_head_attention(8 heads), causal -- mse_loss -- Sgd
//   x [T, 16, 128] -- gru(128) -- mse_loss -- Adam
//
// `long_sequences TEXT` measures only rows with TEXT in them.
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/memory.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

namespace {

struct Sequence {
  std::string name;
  mt::Shape shape;
  std::function<mt::Value(mt::Value)> layer;
  mt::Optimizer optimizer;
};

/// The whole process at most as long as a person waits.
constexpr int kRounds = 7;

void measure(const Sequence& sequence, int threads) {
  mt::Graph g("sequence");
  const mt::Value x = g.input("x", mt::f32, sequence.shape);
  const mt::Value target = g.input("target", mt::f32, sequence.shape);
  g.minimize(mt::mse_loss(sequence.layer(x), target), sequence.optimizer);
  const auto begin = std::chrono::steady_clock::now();
  mt::Executable planned = mt::compile(g, mt::cpu_replay(), {.threads = threads});
  const std::chrono::duration<double> compiled = std::chrono::steady_clock::now() - begin;
  mt::Executable eager = mt::compile(g, mt::eager(), {.threads = threads});

  const at::Tensor numbers = at::randn(sequence.shape), wanted = at::randn(sequence.shape);
  const auto steps_of = [&](mt::Executable& step) {
    return [&](int steps) {
      for (int i = 0; i < steps; ++i) step.run({{x, numbers}, {target, wanted}});
    };
  };
  steps_of(planned)(1), steps_of(eager)(1);
  const double apart = planned.read_scalar(g.loss()) / eager.read_scalar(g.loss()) - 1;
  const bench::Side a{steps_of(eager), 1}, b{steps_of(planned), 1};
  bench::interleave(a, b, 2);  // warm-up
  const bench::Rounds rounds = bench::interleave(a, b, kRounds);
  fmt::print(
      "{:<26} compiled {:5.1f} s  arena {:7.1f} MiB  eager {:7.1f} ms  planned {:7.1f} ms  "
      "eager / planned {:.2f} +- {:.2f}  losses differ by {:.0e}\n",
      sequence.name, compiled.count(),
      static_cast<double>(planned.report().arena_bytes) / (1 << 20), rounds.a.median(),
      rounds.b.median(), rounds.ratios().median(), rounds.ratios().spread(), apart);
}

}  // namespace

int main(int count, char** arguments) {
  constexpr std::int64_t kHeads = 8, kWidth = 512, kHidden = 128, kRows = 16;
  constexpr int kThreads = 2;
  const std::string_view wanted = count > 1 ? arguments[1] : "";
  at::set_num_threads(kThreads);
  bench::keep_freed_memory();
  fmt::print("{}\n", bench::to_string(bench::this_machine()));
  std::vector<Sequence> all;
  for (const std::int64_t length : {512, 1024, 2048, 4096, 8192}) {
    all.push_back({fmt::format("attention, {} positions", length),
                   {1, length, kWidth},
                   mt::multi_head_attention(kWidth, kHeads, {.is_causal = true}),
                   mt::Sgd{.lr = 1e-3}});
  }
  all.push_back(
      {"gru, 1000 steps", {1000, kRows, kHidden}, mt::gru(kHidden), mt::Adam{.lr = 1e-3}});
  for (const Sequence& sequence : all) {
    if (sequence.name.find(wanted) != std::string::npos) measure(sequence, kThreads);
  }
}
