// gpu_allocations: which CUDA calls replayed steps make. Exit status 3: no GPU, or no CUPTI.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "benchmarks/batches.h"
#include "benchmarks/gpu_check/cupti_counter.h"
#include "benchmarks/gpu_check/outcomes.h"
#include "benchmarks/gpu_check/programs.h"
#include "graph/ir/error.h"
#include "models/models.h"

namespace metronome::gpu_check {
namespace {

constexpr int kSteps = 100, kWarmUp = 5;

// Replayed steps whose inputs are filled in place.
class ReplayedSteps {
 public:
  explicit ReplayedSteps(const models::Model& model)
      : loss_(model.graph.loss()), batches_(model, 2), step_(compile(model.graph, cuda_graph())) {
    for (const Value& input : model.inputs) inputs_.push_back(step_.input(input));
    take(kWarmUp, true);
  }

  void take(int steps, bool read) {
    for (int i = 0; i < steps; ++i) {
      const auto feeds = batches_.of_step(static_cast<std::size_t>(i));
      for (std::size_t k = 0; k < inputs_.size(); ++k) {
        std::memcpy(inputs_[k].data_ptr(), feeds[k].tensor().data_ptr(), inputs_[k].nbytes());
      }
      step_.run();
      if (read) step_.read_scalar(loss_);
    }
  }

 private:
  Value loss_;
  benchmarks::Batches batches_;
  Executable step_;
  std::vector<at::Tensor> inputs_;
};

std::string list_calls(const Calls& calls) {
  std::string text;
  for (const auto& [name, count] : calls) text += fmt::format("{} {}, ", name, count);
  return text.substr(0, text.size() - 2);
}

void count_calls(Outcome& outcome, CuptiCounter& counter, ReplayedSteps& replay, bool read) {
  const Calls calls = counter.count([&] { replay.take(kSteps, read); });
  const std::int64_t taken = allocations(calls), waited = synchronizations(calls);
  // A step may wait for the event of the one that had its slot before, and for that of a copy of
  // large inputs, which are filled again then; a read may for its own.
  const std::int64_t most_waits = (read ? 3 : 2) * kSteps;
  outcome.passed = taken == 0 && waited == 0 && event_waits(calls) <= most_waits && !calls.empty();
  outcome.detail =
      fmt::format("{} steps: {} allocations, {} synchronisations, {} waits for an event ({})",
                  kSteps, taken, waited, event_waits(calls), list_calls(calls));
}

int check(const std::vector<std::string>& names, const std::optional<std::string>& json) {
  const auto device = device_or_reason();
  if (!device) return kUnavailable;
  Outcomes outcomes(*device, json);
  std::unique_ptr<CuptiCounter> counter;
  try {
    counter = std::make_unique<CuptiCounter>();
  } catch (const RunError& error) {
    fmt::print("{}\n", error.what());
    return kUnavailable;
  }
  outcomes.run("the counter", "sees allocations and synchronisations", [&](Outcome& outcome) {
    // Compiling takes its arena from the device, and waits for the steps that it times.
    const models::Model model = models::mlp(models::Scale::small);
    const Calls calls = counter->count([&] { compile(model.graph, cuda_graph()); });
    outcome.passed = allocations(calls) > 0 && synchronizations(calls) > 0;
  });
  for (const std::string& name : names) {
    const models::ModelEntry& entry = models::find_model(name);
    for (const models::Scale scale : {models::Scale::small, models::Scale::full}) {
      const models::Model model = entry.make(scale, f32);
      const std::string subject = fmt::format("{}, {}", entry.name, models::name_of(scale));
      std::unique_ptr<ReplayedSteps> replay;
      outcomes.run(subject, "no allocation and no synchronisation, losses unread",
                   [&](Outcome& outcome) {
                     replay = std::make_unique<ReplayedSteps>(model);
                     count_calls(outcome, *counter, *replay, false);
                   });
      if (replay == nullptr) continue;
      outcomes.run(subject, "no allocation and no synchronisation, each loss read",
                   [&](Outcome& outcome) { count_calls(outcome, *counter, *replay, true); });
    }
  }
  return outcomes.finish();
}

}  // namespace
}  // namespace metronome::gpu_check

int metronome::programs::gpu_allocations(int argc, char** argv) {
  std::vector<std::string> all, names;
  for (const auto& entry : metronome::models::all_models()) all.emplace_back(entry.name);
  std::optional<std::string> json;
  CLI::App app("Counts the CUDA calls that replayed steps make.", "gpu_allocations");
  app.add_option("--models", names, "All by default")->check(CLI::IsMember(all));
  app.add_option("--json", json, "Also write what was found to a file, line by line");
  CLI11_PARSE(app, argc, argv);
  try {
    return metronome::gpu_check::check(names.empty() ? all : names, json);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
