// gpu_models: each model on a GPU, replayed, stepwise and eager. Exit status 3: no GPU.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/agreement.h"
#include "benchmarks/gpu_check/control.h"
#include "benchmarks/gpu_check/outcomes.h"
#include "benchmarks/gpu_check/programs.h"
#include "benchmarks/gpu_check/steps.h"

namespace metronome::gpu_check {
namespace {

using models::ModelEntry;
using models::Scale;

struct Arguments {
  std::vector<std::string> models;
  std::vector<std::string> scales = {"small", "full"};
  std::vector<std::string> checks = {"untouched", "schedule", "control", "replay", "eager"};
  std::string forms = "every";
  bool list = false;
  int steps = 100;
  bool host = false;
  std::optional<std::string> json;
};

// The simplest form alone, or all that are timed and the fastest of them kept.
Target replay_in(const std::string& forms) {
  if (forms == "every") return cuda_graph();
  return cuda_graph({.streams = 1, .conditions = Conditions::masked});
}

// Compile undoes what its warm-up, timing and acceptance did: storage is as a CPU's compile, which
// runs nothing, leaves it.
void check_storage_untouched(Outcome& outcome) {
  const models::Model model = everything_moves();
  const CompileOptions options{.modes = {Mode::train, Mode::evaluate}, .seed = 5};
  const Executable on_gpu = compile(model.graph, cuda_graph(), options);
  const Executable on_cpu = compile(model.graph, cpu_replay(), options);
  outcome.detail = different_storage(on_gpu, on_cpu);
  if (on_gpu.replays() != 0 || on_gpu.updates() != 0) outcome.detail = "a counter";
  outcome.passed = outcome.detail.empty();
}

/// "; layout of images -> channels last (timed): plain 9600.0 us, channels last 8400.0 us"; nothing
/// where it was not asked.
std::string layout_of(const PlanReport& plan) {
  std::string text;
  for (const KernelChoice& choice : plan.choices) {
    if (choice.what != "layout of images") continue;
    text += "; " + to_string(choice);
    for (const TimedCandidate& each : choice.candidates) {
      text += fmt::format("{}{} {:.1f} us", &each == &choice.candidates[0] ? ": " : ", ", each.name,
                          each.microseconds);
    }
  }
  return text;
}

void replay_is_stepwise(Outcome& outcome, const models::Model& model, const Target& target,
                        int steps) {
  Executable replay = compile(model.graph, target);
  // After replay: it finds replay's choices in the tuning file.
  Executable stepwise_steps = compile(model.graph, stepwise(cuda_device()));
  outcome.detail = different_steps(replay, stepwise_steps, model, steps);
  outcome.passed = outcome.detail.empty();
  if (outcome.passed) {
    const PlanReport& plan = replay.report().plan(Mode::train);
    outcome.detail = fmt::format("{} steps, {} graph nodes; {}{}", steps, plan.graph_nodes,
                                 fmt::join(plan.forms, "; "), layout_of(plan));
  }
}

// As `compare` judges it.
void agrees_with_eager(Outcome& outcome, const ModelEntry& entry, Scale scale, const Target& target,
                       Device device) {
  const benchmarks::Agreement agreement =
      benchmarks::agreement_f32(entry, scale, 1, target, eager(device));
  outcome.passed = agreement.agree;
  outcome.detail =
      agreement.agree
          ? fmt::format("losses, gradients and parameters of {} steps differ by at most {:.2g}",
                        agreement.losses.size(), agreement.max_difference)
          : agreement.disagreement;
  if (agreement.doubtful > 0) outcome.detail += "; " + benchmarks::doubts(agreement);
}

bool is_wanted(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

void check_model(Outcomes& outcomes, const Arguments& arguments, const ModelEntry& entry,
                 Scale scale) {
  const models::Model model = entry.make(scale, f32);
  const Target target = replay_in(arguments.forms);
  const std::string subject = fmt::format("{}, {}", entry.name, models::name_of(scale));
  const bool small = scale == Scale::small;
  if (is_wanted(arguments.checks, "replay")) {
    outcomes.run(subject, "replay equals stepwise, bit for bit", [&](Outcome& outcome) {
      replay_is_stepwise(outcome, model, target,
                         small ? arguments.steps : std::min(arguments.steps, 20));
    });
  }
  if (!is_wanted(arguments.checks, "eager")) return;
  outcomes.run(subject, "replay agrees with eager from equal storage", [&](Outcome& outcome) {
    agrees_with_eager(outcome, entry, scale, target, arguments.host ? cpu : cuda_device());
  });
}

void check_control(Outcomes& outcomes, int steps, SteeredSize size) {
  const std::string subject = "a loop, a choice and sparse routing";
  for (const auto& [conditions, name] :
       {std::pair(Conditions::masked, "masked"), std::pair(Conditions::flat, "flat"),
        std::pair(Conditions::nested, "nested")}) {
    outcomes.run(subject, fmt::format("{} regions equal stepwise, bit for bit", name),
                 [&](Outcome& outcome) {
                   regions_are_stepwise(outcome, std::identity(), conditions, steps, size);
                 });
  }
  outcomes.run(subject, "rounds that do not run save time",
               [&](Outcome& outcome) { skipping_shows(outcome, std::identity(), steps, size); });
}

int check(const Arguments& arguments) {
  if (arguments.list) {
    for (const ModelEntry& entry : models::all_models()) fmt::print("{}\n", entry.name);
    return 0;
  }
  const auto device = device_or_reason();
  if (!device) return kUnavailable;
  Outcomes outcomes(*device, arguments.json);
  if (is_wanted(arguments.checks, "untouched")) {
    outcomes.run("batch norm and dropout", "warm-up and acceptance leave storage as it was",
                 check_storage_untouched);
  }
  if (is_wanted(arguments.checks, "schedule")) {
    outcomes.run("schedule, clipping, dropout, batch norm", "replay equals stepwise, bit for bit",
                 [&](Outcome& outcome) {
                   replay_is_stepwise(outcome, everything_moves(), replay_in(arguments.forms),
                                      arguments.steps);
                 });
  }
  if (is_wanted(arguments.checks, "control")) {
    check_control(outcomes, arguments.steps, arguments.host ? kNarrow : SteeredSize{});
  }
  for (const ModelEntry& entry : models::all_models()) {
    if (!is_wanted(arguments.models, entry.name)) continue;
    for (const std::string& scale : arguments.scales) {
      check_model(outcomes, arguments, entry, models::scale_of(scale));
    }
  }
  return outcomes.finish();
}

}  // namespace
}  // namespace metronome::gpu_check

int metronome::programs::gpu_models(int argc, char** argv) {
  metronome::gpu_check::Arguments arguments;
  CLI::App app("Checks the shipped models on a GPU.", "gpu_models");
  std::vector<std::string> names;
  for (const auto& entry : metronome::models::all_models()) names.emplace_back(entry.name);
  app.add_option("--models", arguments.models, "All by default")->check(CLI::IsMember(names));
  app.add_option("--scale", arguments.scales, "Both by default")
      ->check(CLI::IsMember({"small", "full"}));
  app.add_option("--checks", arguments.checks, "All by default")
      ->check(CLI::IsMember({"untouched", "schedule", "control", "replay", "eager"}));
  app.add_option("--forms", arguments.forms,
                 "masked: regions run all the same, on one stream; every: all forms are timed")
      ->check(CLI::IsMember({"masked", "every"}))
      ->capture_default_str();
  app.add_flag("--list", arguments.list, "Name the models, and check none");
  app.add_option("--steps", arguments.steps, "Steps of a check")->capture_default_str();
  app.add_flag(
      "--host", arguments.host,
      "For a device made of the host: loops and branches of few numbers, eager on the CPU");
  app.add_option("--json", arguments.json, "Also write what was found to a file, line by line");
  CLI11_PARSE(app, argc, argv);
  try {
    return metronome::gpu_check::check(arguments);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
