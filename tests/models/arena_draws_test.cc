// Arenas beside their lower bounds for kernels that other machines, or timing, may choose: drawn at
// random among the candidates of each node.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "executor/compile/make_plan.h"
#include "executor/cpu/cpu_backend.h"
#include "executor/cpu/cpu_kernels.h"
#include "executor/engine/plan_nodes.h"
#include "graph/emit/hash.h"
#include "models/models.h"
#include "tests/doctest.h"

namespace metronome::arena_draws_test {
namespace {

/// The CPU's kernels, of which each node has one candidate: by the seed, the op and its types.
class Drawn final : public executor::Kernels {
 public:
  Drawn(const executor::Kernels& all, std::uint64_t seed) : all_(all), seed_(seed) {}

  std::string machine() const override { return all_.machine(); }
  bool has(const Op& op) const override { return all_.has(op); }
  std::vector<Candidate> candidates(const Node& node, std::span<const Type> in,
                                    SteadyOperands steady) const override {
    const std::vector<Candidate> all = all_.candidates(node, in, steady);
    const std::string key = fmt::format("{} {}", seed_, executor::describe(node, in));
    return {all[hash_of(key) % all.size()]};
  }
  FastestCandidate fastest(const Node&, std::span<const Type>, SteadyOperands,
                           std::span<const Candidate>) const override {
    return {};
  }

 private:
  const executor::Kernels& all_;
  std::uint64_t seed_;
};

/// METRONOME_DRAWS=50 and METRONOME_SCALE=full: more of them, by hand.
int draws() {
  const char* asked = std::getenv("METRONOME_DRAWS");
  return asked == nullptr ? 50 : std::atoi(asked);
}
models::Scale scale() {
  const char* asked = std::getenv("METRONOME_SCALE");
  return asked == nullptr ? models::Scale::small : models::scale_of(asked);
}

TEST_CASE("every model's arena is at most 1 % above its lower bound, whatever kernels are drawn") {
  for (const int threads : {1, 2}) {
    const auto all = executor::cpu::cpu_kernels({.threads = threads});
    const Settings settings = executor::cpu::cpu_settings(train);
    for (const models::ModelEntry& entry : models::all_models()) {
      const models::Model model = entry.make(scale(), f32);
      double most = 0;
      int above = 0;
      for (int seed = 1; seed <= draws() / 2; ++seed) {
        Report report;
        const executor::Plan plan = executor::compile::make_plan(
            {model.graph.data()}, settings, Drawn(*all, static_cast<std::uint64_t>(seed)),
            {.threads = threads, .tune = Tune::off}, report);
        const double ratio = static_cast<double>(plan.report.arena_bytes) /
                             static_cast<double>(plan.report.lower_bound);
        most = std::max(most, ratio);
        if (ratio <= 1.01) continue;
        ++above;
        FAIL_CHECK(entry.name << ", seed " << seed << ", " << threads << " threads: arena "
                              << plan.report.arena_bytes << " of " << plan.report.lower_bound);
      }
      fmt::print("{:<18} {} threads: at most {:.4f}, {} above\n", entry.name, threads, most, above);
    }
  }
}

}  // namespace
}  // namespace metronome::arena_draws_test
