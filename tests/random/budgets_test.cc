// Random programs under random memory budgets: the arena keeps to the budget, and every step leaves
// the same bits as the one that computes nothing again.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "graph/ir/error.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/random/builder.h"
#include "tests/random/check.h"
#include "tests/random/run.h"

namespace metronome::random_programs {
namespace {

/// The sanitizers take eight times as long for each.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint32_t kPrograms = 16;
#else
constexpr std::uint32_t kPrograms = 80;
#endif

struct BudgetTally {
  int programs = 0, with_clones = 0, clones = 0, on_devices = 0;
  double smallest = 0;  ///< parts of arenas, added up
};

Target device(std::uint32_t seed) {
  Target target = cuda_graph({.fuse = false});
  target.driver = std::make_shared<HostDriver>(HostSettings{.seed = seed});
  return target;
}

/// The smallest arena that compile finds feasible.
std::size_t smallest_arena(const Graph& graph, const Target& target, CompileOptions options,
                           std::size_t whole) {
  options.memory_budget = 0;
  const std::string text = tests::error_of<RunError>([&] { compile(graph, target, options); });
  const std::string words = "the smallest found, with values computed again, is ";
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return whole;  // of no bytes
  return std::stoul(text.substr(at + words.size()));
}

/// The first mistake in three steps under a budget between the smallest and the whole arena.
std::string check_budget(std::uint32_t seed, BudgetTally& tally) {
  const Program program = generate(seed);
  Builder built(program);
  built.build();
  const Graph& graph = built.graph();
  const CompileOptions options = options_for(program);
  const bool on_device = seed % 8 == 0;
  const Target target = on_device ? device(seed) : seed % 2 == 0 ? stepwise() : cpu_replay();
  Executable free = compile(graph, target, options);
  const std::size_t whole = free.report().arena_bytes;
  const std::size_t smallest = smallest_arena(graph, target, options, whole);
  if (smallest > whole) return "the smallest arena is larger than the whole";
  CompileOptions bounded = options;
  bounded.poison = !on_device;
  std::mt19937 random(seed);
  bounded.memory_budget = smallest + random() % (whole - smallest + 1);
  Executable kept = compile(graph, target, bounded);
  const Report& report = kept.report();
  if (report.arena_bytes > *bounded.memory_budget) {
    return fmt::format("an arena of {} bytes under a budget of {}", report.arena_bytes,
                       *bounded.memory_budget);
  }
  ++tally.programs;
  tally.on_devices += on_device;
  const std::size_t clones = report.plan(Mode::train).recomputed.size();
  tally.with_clones += clones > 0;
  tally.clones += static_cast<int>(clones);
  if (whole > 0) tally.smallest += static_cast<double>(smallest) / static_cast<double>(whole);
  for (int step = 0; step < 3; ++step) {
    const auto all = feeds(graph, program.seed, step);
    free.run(all);
    kept.run(all);
    const std::string difference = difference_of_bits(left_by(free, graph), left_by(kept, graph));
    if (!difference.empty()) return fmt::format("after step {}: {}", step + 1, difference);
    // Two nodes may tell of a value that both read: the first in the order does.
    if (free.fault().has_value() != kept.fault().has_value()) {
      return free.fault().value_or("none") + " and " + kept.fault().value_or("none");
    }
  }
  return "";
}

TEST_CASE("random programs keep to random budgets, and leave the same bits") {
  BudgetTally tally;
  for (std::uint32_t seed = 1; seed <= kPrograms; ++seed) {
    std::string wrong;
    try {
      wrong = check_budget(seed, tally);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    CHECK_MESSAGE(wrong.empty(), "seed ", seed, ": ", wrong, "\n", text_of(generate(seed)));
  }
  MESSAGE(tally.programs, " programs, ", tally.on_devices, " of them on devices; ",
          tally.with_clones, " compute again, ", tally.clones,
          " kernels in all; the smallest arena is in the mean ",
          tally.smallest / std::max(tally.programs, 1), " of the whole");
  CHECK(tally.with_clones * 2 > tally.programs);
}

}  // namespace
}  // namespace metronome::random_programs
