// Training steps over tensors whose innermost dimension is short, [N, k] with N k = 65,536, beside
// the same with the two dimensions exchanged, [k, N], in interleaved rounds on one thread:
//
//   broadcast   mean(tanh(x * w + b) * s)       w, b [k], s [N, 1]
//   reduced     mean(square(x - mean(x, k)))    and the norm, max and sum of rows
//   normalized  mean(square(x / sum(exp(x), k)))
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>

#include "benchmarks/machine.h"
#include "benchmarks/memory.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

namespace {

constexpr std::int64_t kElements = 1 << 16;
constexpr int kRounds = 11, kSteps = 20;

/// The dimension of k lies last, or first.
struct Rows {
  mt::Graph g{"rows"};
  std::int64_t n, k, axis;
  mt::Value x;
  Rows(std::int64_t k, bool last)
      : n(kElements / k), k(k), axis(last ? 1 : 0), x(weight("x", {n, k})) {}

  mt::Value weight(const char* name, mt::Shape shape) {
    if (axis == 0) std::swap(shape[0], shape[1]);
    return g.parameter(name, {mt::f32, shape}, mt::normal(0, 1));
  }
};

using Loss = std::function<mt::Value(Rows&)>;

mt::Value broadcast(Rows& r) {
  const mt::Value w = r.weight("w", {1, r.k}), b = r.weight("b", {1, r.k});
  const mt::Value s = r.weight("s", {r.n, 1});
  return mt::mean(mt::tanh(r.x * w + b) * s);
}
mt::Value reduced(Rows& r) {
  const mt::Value apart = r.x - mt::mean(r.x, r.axis, true);
  return mt::mean(mt::square(apart)) + mt::mean(mt::norm(r.x, 2, r.axis)) +
         mt::mean(mt::max(r.x, r.axis));
}
mt::Value normalized(Rows& r) {
  const mt::Value e = mt::exp(r.x);
  return mt::mean(mt::square(e / mt::sum(e, r.axis, true)));
}

void measure(const std::string& name, const Loss& loss, std::int64_t k) {
  const auto step_of = [&](bool last) {
    Rows rows(k, last);
    rows.g.minimize(loss(rows), mt::Sgd{.lr = 1e-3});
    return mt::compile(rows.g, mt::cpu_replay(), {.threads = 1});
  };
  mt::Executable last = step_of(true), first = step_of(false);
  const auto side = [](mt::Executable& step) {
    return bench::Side{[&step](int steps) {
                         for (int i = 0; i < steps; ++i) step.run();
                       },
                       kSteps};
  };
  const bench::Side a = side(last), b = side(first);
  bench::interleave(a, b, 2);  // warm-up
  const bench::Rounds rounds = bench::interleave(a, b, kRounds);
  fmt::print("{:<11} k {:>2}  [N, k] {:7.1f} us  [k, N] {:7.1f} us  ratio {:.2f} +- {:.2f}\n", name,
             k, 1e3 * rounds.a.median(), 1e3 * rounds.b.median(), rounds.ratios().median(),
             rounds.ratios().spread());
}

}  // namespace

int main() {
  at::set_num_threads(1);
  bench::keep_freed_memory();
  fmt::print("{}\n", bench::to_string(bench::this_machine()));
  for (const std::int64_t k : {1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 16, 17, 24, 32}) {
    measure("broadcast", broadcast, k);
    measure("reduced", reduced, k);
    measure("normalized", normalized, k);
  }
}
