#include "benchmarks/explain.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "benchmarks/batches.h"
#include "benchmarks/contestant.h"
#include "benchmarks/floor/convolutions.h"
#include "benchmarks/floor/floor.h"
#include "benchmarks/floor/library_share.h"

namespace metronome::benchmarks {
namespace {

/// Those that change a step on a CPU, and the choice of ops that run whole.
constexpr std::string_view kPasses[] = {"keep_whole", "fold",   "gather", "share",
                                        "absorb",     "loosen", "fuse"};

/// Leaves a pass out for as long as it lives, besides those that the user leaves out.
class LeftOutPass {
 public:
  explicit LeftOutPass(std::string_view pass) {
    if (const char* before = std::getenv(kVariable)) before_ = before;
    std::string all(pass);
    if (before_ && !before_->empty()) all = *before_ + "," + all;
    setenv(kVariable, all.c_str(), 1);
  }
  ~LeftOutPass() { before_ ? setenv(kVariable, before_->c_str(), 1) : unsetenv(kVariable); }
  LeftOutPass(const LeftOutPass&) = delete;
  LeftOutPass& operator=(const LeftOutPass&) = delete;

 private:
  static constexpr const char* kVariable = "METRONOME_WITHOUT";
  std::optional<std::string> before_;
};

/// Measures a copy from one half of so many bytes to the other.
double bytes_per_ms(std::size_t bytes, int threads) {
  constexpr int kRounds = 15;
  constexpr double kRoundMs = 10;
  constexpr std::int64_t kPart = 16 * 1024;  // a line of calls that threads share
  const std::size_t half = std::max<std::size_t>(bytes / 2, 64);
  const std::vector<char> from(half, 1);
  std::vector<char> to(half);
  const auto copy = [&] {
    const auto count = static_cast<std::int64_t>(half);
    if (threads == 1) {
      std::memcpy(to.data(), from.data(), half);
      return;
    }
    at::parallel_for(0, count, kPart, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
    });
  };
  copy();
  const double once = std::max(milliseconds(copy), 1e-5);
  const int copies = std::max(1, static_cast<int>(kRoundMs / once));
  Samples samples;
  for (int round = 0; round < kRounds; ++round) {
    samples.values.push_back(milliseconds([&] {
      for (int i = 0; i < copies; ++i) copy();
    }));
  }
  return 2.0 * static_cast<double>(half) * copies / samples.median();
}

}  // namespace

CpuFloor cpu_floor(const Graph& declared, std::size_t working_bytes, int threads) {
  CpuFloor floor;
  floor.products_ms = library_ms(declared, threads);
  floor.convolutions_ms = convolutions_ms(convolutions_of(declared), threads);
  floor.bytes = bytes_moved(declared);
  floor.bytes_per_ms = bytes_per_ms(working_bytes, threads);
  return floor;
}

Explanation explain(const models::ModelEntry& entry, const CompareOptions& options,
                    const std::function<void(std::string_view)>& progress) {
  at::set_num_threads(options.threads);
  const models::Model model = entry.make(options.scale, f32);
  const Batches batches(model);
  const auto compiled = [&] {
    return compile(model.graph, cpu_replay(), {.threads = options.threads});
  };
  Explanation result;
  result.model = entry.name;

  progress("compiling");
  Executable planned = compiled();
  const Report& report = planned.report();
  result.kernels = report.plan(train).kernels;
  result.arena_bytes = report.plan(train).arena_bytes;
  Contestant with_all(planned, batches, model.graph.loss());
  const int steps = steps_per_round(with_all);

  for (const std::string_view pass : kPasses) {
    progress(fmt::format("without {}", pass));
    Executable other = [&] {
      const LeftOutPass without(pass);
      return compiled();
    }();
    Contestant left_out(other, batches, model.graph.loss());
    const int others = steps_per_round(left_out);
    const Rounds rounds = interleave({[&](int n) { left_out.read(n); }, others},
                                     {[&](int n) { with_all.read(n); }, steps}, options.rounds);
    const PlanReport& plan = other.report().plan(train);
    result.passes.push_back({pass, rounds.a, rounds.ratios(), plan.kernels, plan.arena_bytes});
    result.planned_ms.values.insert(result.planned_ms.values.end(), rounds.b.values.begin(),
                                    rounds.b.values.end());
  }

  progress("the floor");
  result.floor = cpu_floor(model.graph, report.arena_bytes + report.storage_bytes, options.threads);
  return result;
}

std::string to_string(const Explanation& e) {
  constexpr double kMiB = 1 << 20, kMsPerS = 1e3;
  const CpuFloor& floor = e.floor;
  const double planned = e.planned_ms.median();
  std::string text = fmt::format(
      "{}: {:.4g} +- {:.2g} ms a step, {:.2f} x its floor of {:.4g} ms\n"
      "  products      {:>9.4f} ms, alone\n"
      "  convolutions  {:>9.4f} ms, alone, in the layout in which each is fastest\n"
      "  other bytes   {:>9.4f} ms: {:.3f} MiB, at {:.1f} GiB/s\n"
      "  {:<12}  {:>9} {:>8} {:>10}   time without / with\n"
      "  {:<12}  {:>9.4f} {:>8} {:>10.3f}\n",
      e.model, planned, e.planned_ms.spread(), planned / floor.ms(), floor.ms(), floor.products_ms,
      floor.convolutions_ms, floor.bytes / floor.bytes_per_ms, floor.bytes / kMiB,
      floor.bytes_per_ms * kMsPerS / (kMiB * 1024), "passes", "ms", "kernels", "arena MiB", "all",
      planned, e.kernels, static_cast<double>(e.arena_bytes) / kMiB);
  for (const PassWorth& p : e.passes) {
    text += fmt::format("  {:<12}  {:>9.4f} {:>8} {:>10.3f}   {:.3f} +- {:.3f}\n",
                        fmt::format("no {}", p.pass), p.ms.median(), p.kernels,
                        static_cast<double>(p.arena_bytes) / kMiB, p.ratios.median(),
                        p.ratios.spread());
  }
  return text;
}

}  // namespace metronome::benchmarks
