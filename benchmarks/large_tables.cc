// Training steps that look up some rows of a large table, planned and eager, in interleaved rounds:
//
//   index [1024] -- embedding(rows, 64) -- mse_loss -- Sgd, Adam or lazy Adam
//
// Eager has no lazy Adam: there it takes Adam's steps. `large_tables TEXT` measures only rows with
// TEXT in them.
#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "benchmarks/machine.h"
#include "benchmarks/memory.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

namespace {

constexpr std::int64_t kLookedUp = 1024, kWidth = 64;
constexpr int kRounds = 15, kBatches = 8, kThreads = 2;

struct LookupModel {
  mt::Graph g{"table"};
  mt::Value index = g.input("index", mt::i64, {kLookedUp});
  mt::Value target = g.input("target", mt::f32, {kLookedUp, kWidth});
  LookupModel(std::int64_t rows, const mt::Optimizer& optimizer) {
    g.minimize(mt::mse_loss(index.through(mt::embedding(rows, kWidth)), target), optimizer);
  }
};

/// Steps over some batches in turn, each of other rows.
class Steps {
 public:
  Steps(const LookupModel& net, const mt::Target& target, std::int64_t rows)
      : net_(net), step_(mt::compile(net.g, target, {.threads = kThreads})), rows_(rows) {}

  void operator()(int steps) {
    for (int i = 0; i < steps; ++i) {
      step_.run({{net_.index, index_[taken_ % kBatches]}, {net_.target, wanted_}});
      ++taken_;
    }
  }
  double arena_mib() const { return static_cast<double>(step_.report().arena_bytes) / (1 << 20); }

 private:
  const LookupModel& net_;
  mt::Executable step_;
  std::int64_t rows_;
  at::Tensor index_ = at::randint(rows_, {kBatches, kLookedUp}, at::kLong);
  at::Tensor wanted_ = at::randn({kLookedUp, kWidth});
  int taken_ = 0;
};

void measure(const std::string& name, std::int64_t rows, const mt::Optimizer& planned_by,
             const mt::Optimizer& eager_by) {
  const LookupModel planned_net(rows, planned_by), eager_net(rows, eager_by);
  Steps planned(planned_net, mt::cpu_replay(), rows), eager(eager_net, mt::eager(), rows);
  const bench::Side a{[&](int steps) { eager(steps); }, kBatches};
  const bench::Side b{[&](int steps) { planned(steps); }, kBatches};
  bench::interleave(a, b, 2);  // warm-up
  const bench::Rounds rounds = bench::interleave(a, b, kRounds);
  fmt::print(
      "{:<26} arena {:7.1f} MiB  eager {:8.3f} ms  planned {:8.3f} +- {:.3f} ms  "
      "eager / planned {:.1f} +- {:.1f}\n",
      name, planned.arena_mib(), rounds.a.median(), rounds.b.median(), rounds.b.spread(),
      rounds.ratios().median(), rounds.ratios().spread());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view wanted = count > 1 ? arguments[1] : "";
  at::set_num_threads(kThreads);
  bench::keep_freed_memory();
  fmt::print("{}\n", bench::to_string(bench::this_machine()));
  const mt::Sgd sgd{.lr = 0.1};
  const mt::Adam adam{.lr = 1e-3}, lazy{.lr = 1e-3, .lazy = true};
  for (const std::int64_t rows : {5'000, 50'000, 500'000}) {
    const auto row = [&](std::string_view by, const mt::Optimizer& planned,
                         const mt::Optimizer& eager) {
      const std::string name = fmt::format("{} rows, {}", rows, by);
      if (name.find(wanted) != std::string::npos) measure(name, rows, planned, eager);
    };
    row("Sgd", sgd, sgd);
    row("Adam", adam, adam);
    row("lazy Adam", lazy, adam);
  }
}
