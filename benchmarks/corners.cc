// Training steps of what corners cost something: masks that hide, sums that keep their digits,
// gradients of 0 that stay 0. Each at a small size and at a large one, on one thread. Times of two
// builds are compared by running both programs in turns.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/memory.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

namespace {

constexpr int kRounds = 15;
constexpr double kRoundSeconds = 0.02;

/// A graph to train, and what is fed to it once.
struct CornerStep {
  mt::Graph g{"corner"};
  std::vector<mt::Feed> feeds;

  mt::Value weight(const char* name, mt::Shape shape) {
    return g.parameter(name, {mt::f32, std::move(shape)}, mt::normal(0, 1));
  }
  mt::Value fed(const char* name, mt::Element element, const at::Tensor& tensor) {
    const mt::Value value = g.input(name, element, tensor.sizes().vec());
    feeds.push_back({value, tensor});
    return value;
  }
  void train(mt::Value loss) { g.minimize(loss, mt::Sgd{.lr = 1e-3}); }
};

at::Tensor whole(std::int64_t below, mt::Shape shape) {
  return at::randint(below, shape, at::TensorOptions(at::kLong));
}

void attention(CornerStep& c, std::int64_t rows, bool causal, bool masked) {
  const mt::Shape shape = {4, 4, rows, 32};
  const mt::Value q = c.weight("q", shape), k = c.weight("k", shape), v = c.weight("v", shape);
  mt::AttentionOptions options;
  options.is_causal = causal;
  if (masked) options.attn_mask = c.fed("mask", mt::bool_, whole(4, {rows, rows}).ne(0));
  c.train(mt::mean(mt::square(mt::scaled_dot_product_attention(q, k, v, options))));
}

void recurrent(CornerStep& c, std::int64_t width) {
  const mt::Value x = c.weight("x", {24, 32, width});
  const mt::Value lengths = c.fed("lengths", mt::i64, whole(24, {32}) + 1);
  c.train(mt::mean(mt::square(mt::gru(width)(x, {.lengths = lengths}).output)));
}

void labels(CornerStep& c, std::int64_t rows) {
  const mt::Value x = c.weight("x", {rows, 64});
  c.train(mt::cross_entropy_loss(x, c.fed("labels", mt::i64, whole(65, {rows}) - 1),
                                 {.ignore_index = -1}));
}

void dropped(CornerStep& c, std::int64_t rows) {
  c.train(mt::mean(mt::square(c.weight("x", {rows, 64}).through(mt::dropout(0.1)))));
}

void guarded(CornerStep& c, std::int64_t rows) {
  const mt::Value x = c.weight("x", {rows, 64});
  c.train(mt::mean(mt::where(x > 0.0, mt::sqrt(x), x)));
}

void logits(CornerStep& c, std::int64_t rows) {
  const mt::Value x = c.weight("x", {rows, 64}), t = c.weight("t", {rows, 64});
  c.train(mt::bce_with_logits_loss(x, mt::sigmoid(t)));
}

void norms(CornerStep& c, std::int64_t rows) {
  c.train(mt::mean(mt::norm(c.weight("x", {rows, 64}), 2, {-1})));
}

void normalized(CornerStep& c, std::int64_t rows) {
  c.train(mt::mean(mt::square(c.weight("x", {rows, 64}).through(mt::layer_norm()))));
}

void clipped(CornerStep& c, std::int64_t rows) {
  const mt::Value x = c.weight("x", {rows, 64});
  c.g.minimize(mt::mean(mt::square(x)), mt::Sgd{.lr = 1e-3, .clip_norm = 1.0});
}

void measure(const std::string& name, const char* size,
             const std::function<void(CornerStep&)>& declare) {
  at::manual_seed(1);
  CornerStep c;
  declare(c);
  mt::Executable step = mt::compile(c.g, mt::cpu_replay(), {.threads = 1});
  step.run(c.feeds);
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) step.run();
  };
  run(3);
  const double one = bench::milliseconds([&] { run(5); }) / 5;
  const int steps = std::max(1, static_cast<int>(1e3 * kRoundSeconds / one));
  bench::Samples samples;
  for (int r = 0; r < kRounds; ++r)
    samples.values.push_back(bench::milliseconds([&] { run(steps); }) / steps);
  fmt::print("{:<28} {:<6} {:10.2f} us\n", name, size, 1e3 * samples.median());
}

}  // namespace

int main() {
  at::set_num_threads(1);
  bench::keep_freed_memory();
  fmt::print("{}\n", bench::to_string(bench::this_machine()));
  for (const bool large : {false, true}) {
    const char* const size = large ? "large" : "small";
    const auto rows = [&](std::int64_t small, std::int64_t many) { return large ? many : small; };
    measure("attention, causal", size,
            [&](CornerStep& c) { attention(c, rows(16, 512), true, false); });
    measure("attention, masked", size,
            [&](CornerStep& c) { attention(c, rows(16, 512), false, true); });
    measure("gru with lengths", size, [&](CornerStep& c) { recurrent(c, rows(8, 128)); });
    measure("cross entropy, ignored rows", size, [&](CornerStep& c) { labels(c, rows(8, 4096)); });
    measure("dropout", size, [&](CornerStep& c) { dropped(c, rows(8, 4096)); });
    measure("where beside a root", size, [&](CornerStep& c) { guarded(c, rows(8, 4096)); });
    measure("binary cross entropy", size, [&](CornerStep& c) { logits(c, rows(8, 4096)); });
    measure("norms of rows", size, [&](CornerStep& c) { norms(c, rows(8, 4096)); });
    measure("layer norm", size, [&](CornerStep& c) { normalized(c, rows(8, 4096)); });
    measure("clipping by norm", size, [&](CornerStep& c) { clipped(c, rows(8, 4096)); });
  }
}
