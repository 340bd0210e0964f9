// The cost to look for numbers that are not finite (CompileOptions::watch): a replayed step of each
// model without and with it, in interleaved rounds.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "benchmarks/batches.h"
#include "benchmarks/machine.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"
#include "models/models.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

namespace {

void compare(const mt::models::ModelEntry& entry, mt::models::Scale scale, int threads) {
  constexpr int kRounds = 21;
  constexpr double kRoundSeconds = 0.02;
  const mt::models::Model model = entry.make(scale, mt::f32);
  const bench::Batches batches(model);
  mt::CompileOptions options{.threads = threads};
  mt::Executable plain = mt::compile(model.graph, mt::cpu_replay(), options);
  options.watch = true;
  mt::Executable watching = mt::compile(model.graph, mt::cpu_replay(), options);
  const auto steps_of = [&](mt::Executable& step) {
    return [&](int steps) {
      for (int i = 0; i < steps; ++i) step.run(batches.of_step(static_cast<std::size_t>(i)));
    };
  };
  steps_of(plain)(3), steps_of(watching)(3);
  const auto begin = std::chrono::steady_clock::now();
  steps_of(plain)(1);
  const std::chrono::duration<double> once = std::chrono::steady_clock::now() - begin;
  const int steps = std::clamp(static_cast<int>(kRoundSeconds / once.count()), 1, 1000);
  const bench::Side a{steps_of(watching), steps}, b{steps_of(plain), steps};
  bench::interleave(a, b, 2);  // warm-up
  const bench::Rounds rounds = bench::interleave(a, b, kRounds);
  fmt::print("{:<20} {:>10.1f} us   watched / plain {:.3f} +- {:.3f}\n", entry.name,
             1e3 * rounds.b.median(), rounds.ratios().median(), rounds.ratios().spread());
}

}  // namespace

int main() {
  fmt::print("{}\n", bench::to_string(bench::this_machine()));
  fmt::print("small, 1 thread\n");
  at::set_num_threads(1);
  for (const auto& entry : mt::models::all_models()) compare(entry, mt::models::Scale::small, 1);
  fmt::print("full, 2 threads\n");
  at::set_num_threads(2);
  for (const auto& entry : mt::models::all_models()) compare(entry, mt::models::Scale::full, 2);
}
