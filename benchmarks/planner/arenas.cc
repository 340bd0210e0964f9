// The memory of training steps: the plan's arena beside its lower bound, and beside the most bytes
// of tensors that libtorch's eager step holds at one moment.
//
// `arenas [TEXT]`: the shipped models at three scales, then the gallery's; of those whose name has
// TEXT. Feeds count on neither side, nor do storages (parameters, moments, states), which both
// have: they have a column of their own. A step of `feedback_adaptive` is planned for all ten
// passes, so here eager makes all ten: no number lets it halt.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/batches.h"
#include "benchmarks/machine.h"
#include "benchmarks/memory.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"
#include "models/gallery/gallery.h"
#include "models/models.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;
namespace models = metronome::models;

namespace {

constexpr int kThreads = 2;

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// The arena as a column, and how many times its lower bound that is.
std::string arena_of(const mt::PlanReport& plan) {
  return fmt::format("{:>10.3f} {:>7.4f}", mebibytes(plan.arena_bytes),
                     static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.lower_bound));
}

using Feeds = std::function<std::vector<mt::Feed>(std::size_t step)>;

void measure(const std::string& name, const mt::Graph& graph, const Feeds& feeds, bool all_passes) {
  const mt::CompileOptions options{.threads = kThreads};
  const mt::Executable planned = mt::compile(graph, mt::cpu_replay(), options);
  const mt::Executable on_device = mt::compile(graph, mt::null(), options);
  const mt::Report& report = planned.report();
  const std::vector<mt::Feed> fed[] = {feeds(0), feeds(1)};
  const std::size_t eager = bench::peak_tensor_bytes([&] {
    mt::Executable step = mt::compile(graph, mt::eager(), options);
    if (all_passes) {
      for (const std::string& path : step.storages()) {
        // The bias of the one number that decides.
        if (step.get(path).numel() == 1 && path.ends_with("bias")) {
          step.set(path, at::full(step.get(path).sizes(), -1e6));
        }
      }
    }
    for (const std::vector<mt::Feed>& batch : fed) step.run(batch);
    if (all_passes && step.read("iterations").item<double>() != 10) {
      throw mt::RunError("eager halted before its tenth pass");
    }
  });
  const mt::PlanReport& plan = report.plan(mt::train);
  fmt::print("{:<26} {} {:>10.3f} {:>6.2f} {:>10.3f} {}\n", name, arena_of(plan), mebibytes(eager),
             static_cast<double>(plan.arena_bytes) / static_cast<double>(eager),
             mebibytes(report.storage_bytes), arena_of(on_device.report().plan(mt::train)));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const std::string_view text = count > 1 ? arguments[1] : "";
    at::set_num_threads(kThreads);
    fmt::print("{}\n", bench::to_string(bench::this_machine()));
    fmt::print("{:<26} {:>10} {:>7} {:>10} {:>6} {:>10} {:>10} {:>7}\n", "MiB", "arena", "/bound",
               "eager", "arena/", "storages", "on device", "/bound");
    for (const models::ModelEntry& entry : models::all_models()) {
      for (const models::Scale scale :
           {models::Scale::small, models::Scale::medium, models::Scale::full}) {
        const std::string name = fmt::format("{} {}", entry.name, models::name_of(scale));
        if (name.find(text) == std::string::npos) continue;
        const models::Model model = entry.make({scale}, mt::f32);
        const bench::Batches batches(model, 2);
        const auto feeds = [&](std::size_t step) {
          const auto of_step = batches.of_step(step);
          return std::vector<mt::Feed>(of_step.begin(), of_step.end());
        };
        measure(name, model.graph, feeds, entry.name == "feedback_adaptive");
      }
    }
    for (const mt::gallery::Entry& entry : mt::gallery::all()) {
      const std::string name = fmt::format("gallery {}", entry.name);
      if (name.find(text) == std::string::npos) continue;
      const mt::gallery::Example example = entry.make(mt::f32);
      const auto feeds = [&](std::size_t step) {
        return example.batch(static_cast<std::int64_t>(step));
      };
      measure(name, example.graph, feeds, false);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
