// Training steps under memory budgets, beside the step without one, in interleaved rounds.
//
// `budgets` measures the transformer at full scale and a deep encoder; `budgets MODEL SCALE` one of
// the shipped models. Each budget is a part of the arena that the step takes without one. Before
// they are timed, both steps train three times: losses and parameters must have the same bits.
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/batches.h"
#include "benchmarks/machine.h"
#include "benchmarks/memory.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"
#include "models/models.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;
namespace models = metronome::models;

namespace {

constexpr int kThreads = 2;
constexpr int kRounds = 7;
constexpr double kParts[] = {0.8, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1};

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// 24 layers of a transformer's encoder on sequences of 512 tokens, which learns to copy them.
models::Model encoder() {
  constexpr std::int64_t kRows = 1, kTokens = 512, kWidth = 256, kVocabulary = 1000;
  mt::Graph g("encoder");
  const mt::Value tokens = g.input("tokens", mt::i64, {kRows, kTokens});
  const mt::Value target = g.input("target", mt::i64, {kRows, kTokens});
  mt::Value x = tokens.through(mt::embedding(kVocabulary, kWidth));
  for (int layer = 0; layer < 24; ++layer) {
    x = x.scope(fmt::format("layer{}", layer), [&](mt::Value h) {
      h = h + h.through(mt::layer_norm()).through(mt::multi_head_attention(kWidth, 4));
      return h + h.through(mt::layer_norm())
                     .through(mt::linear(4 * kWidth))
                     .through(mt::gelu)
                     .through(mt::linear(kWidth));
    });
  }
  const mt::Value logits = x.through(mt::layer_norm()).through(mt::linear(kVocabulary));
  g.minimize(mt::cross_entropy_loss(logits.reshape({kRows * kTokens, kVocabulary}),
                                    target.reshape({kRows * kTokens})),
             mt::Adam{.lr = 1e-4});
  return models::finish(std::move(g), {tokens, target}, logits, {.vocabulary = kVocabulary});
}

std::optional<std::string> difference(mt::Executable& a, mt::Executable& b,
                                      const models::Model& model, const bench::Batches& batches) {
  for (std::size_t step = 0; step < 3; ++step) {
    a.run(batches.of_step(step)), b.run(batches.of_step(step));
    for (const std::string& path : a.storages()) {
      if (!at::equal(a.get(path), b.get(path))) {
        return fmt::format("{} after step {} of {}", path, step + 1, model.name);
      }
    }
  }
  return std::nullopt;
}

void measure(const models::Model& model, const std::string& name) {
  const bench::Batches batches(model, 10);
  mt::CompileOptions options{.threads = kThreads};
  mt::Executable free = mt::compile(model.graph, mt::cpu_replay(), options);
  const std::size_t whole = free.report().arena_bytes;
  fmt::print("{}: arena {:.1f} MiB without a budget, compiled in {:.1f} s\n", name,
             mebibytes(whole), free.report().compile_seconds);
  fmt::print("  {:>6} {:>9} {:>6} {:>8} {:>14} {:>9} {:>9}\n", "budget", "arena MiB", "part",
             "clones", "reckoned time", "time", "compile s");
  for (const double part : kParts) {
    options.memory_budget = static_cast<std::size_t>(static_cast<double>(whole) * part);
    try {
      mt::Executable kept = mt::compile(model.graph, mt::cpu_replay(), options);
      mt::Executable plain = mt::compile(model.graph, mt::cpu_replay(), {.threads = kThreads});
      const auto apart = difference(plain, kept, model, batches);
      if (apart) throw mt::RunError("other bits: " + *apart);
      const auto steps_of = [&](mt::Executable& step) {
        return [&](int steps) {
          for (int i = 0; i < steps; ++i) step.run(batches.of_step(static_cast<std::size_t>(i)));
        };
      };
      const bench::Side a{steps_of(plain), 1}, b{steps_of(kept), 1};
      bench::interleave(a, b, 1);  // warm-up
      const bench::Rounds rounds = bench::interleave(a, b, kRounds);
      const mt::PlanReport& plan = kept.report().plan(mt::train);
      double again = 0;
      for (const mt::RecomputedValue& value : plan.recomputed) again += value.microseconds;
      fmt::print("  {:>6.2f} {:>9.1f} {:>6.3f} {:>8} {:>14.3f} {:>9.3f} {:>9.1f}\n", part,
                 mebibytes(plan.arena_bytes),
                 static_cast<double>(plan.arena_bytes) / static_cast<double>(whole),
                 plan.recomputed.size(), 1 + again / 1e3 / rounds.a.median(),
                 1 / rounds.ratios().median(), kept.report().compile_seconds);
    } catch (const mt::RunError& refused) {
      const std::string text = refused.what();
      fmt::print("  {:>6.2f} {}\n", part, text.substr(0, text.find("; largest")));
      break;
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    at::set_num_threads(kThreads);
    bench::keep_freed_memory();
    fmt::print("{}\n", bench::to_string(bench::this_machine()));
    if (count == 3) {
      const models::ModelEntry& entry = models::find_model(arguments[1]);
      measure(entry.make({models::scale_of(arguments[2])}, mt::f32),
              fmt::format("{} {}", entry.name, arguments[2]));
      return 0;
    }
    measure(models::transformer({models::Scale::full}), "transformer full");
    measure(encoder(), "encoder of 24 layers");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
