#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/declared_model.h"
#include "benchmarks/commands/profile.h"
#include "graph/ir/error.h"
#include "models/commands/device.h"
#include "models/commands/files.h"
#include "models/tasks/task.h"

namespace metronome::commands {
namespace {

struct PlanArguments {
  std::string model;
  std::string scale = "small";
  std::string device = "cpu";
  std::optional<std::string> dot;
  std::optional<std::string> json;
  std::optional<std::string> html;
  std::optional<std::string> against;
  std::optional<std::string> trace;
  int threads = 0;
  std::optional<std::uint64_t> memory_budget;
  bool print = false;
  bool profile = false;
};

/// A record that `--json` wrote earlier.
PlanRecord read_record(const std::string& file) {
  const std::string text = read_whole(file);
  try {
    return plan_record_of(text);
  } catch (const RunError& error) {
    throw RunError(fmt::format("{}: {}", file, error.what()));
  }
}

int plan(const PlanArguments& arguments) {
  if (arguments.model.empty()) {
    throw UsageError(fmt::format("say which model to plan: {}.", list_choices(model_names())));
  }
  if (arguments.against && !arguments.html) {
    throw UsageError("--against shows two plans on one page: say --html FILE, too.");
  }
  if (arguments.trace && !arguments.profile) {
    throw UsageError("--trace shows the steps that --profile takes: say --profile, too.");
  }
  std::optional<PlanRecord> before;
  if (arguments.against) before = read_record(*arguments.against);
  if (arguments.json) expect_writable(*arguments.json);
  if (arguments.html) expect_writable(*arguments.html);
  if (arguments.trace) expect_writable(*arguments.trace);
  const Target target = targets_on(arguments.device, 0).planned;
  const DeclaredModel planned = declare_model(arguments.model, arguments.scale);
  const Graph& graph = planned.model.graph;
  if (arguments.dot) write_whole(*arguments.dot, graph.dot());
  if (arguments.print) fmt::print("{}\n", graph.print());
  CompileOptions options{.threads = arguments.threads};
  options.memory_budget = arguments.memory_budget;
  if (models::find_task(arguments.model) != nullptr) options.modes = {train, evaluate};
  Executable executable = compile(graph, target, options);
  fmt::print("{}", to_string(executable.report()));
  std::optional<ProfiledStep> step;
  if (arguments.profile) {
    step = profile_of(executable, graph.loss(), planned.model.inputs, planned.vocabulary);
    fmt::print("{}", to_string(*step));
  }
  if (arguments.trace) write_whole(*arguments.trace, to_json(trace_of(executable)));
  if (!arguments.json && !arguments.html) return 0;
  PlanRecord record = step ? executable.plan_record(step->kernels) : executable.plan_record();
  if (step) record.times.step_microseconds = step->microseconds;
  if (arguments.json) write_whole(*arguments.json, to_json(record));
  if (arguments.html) {
    write_whole(*arguments.html, before ? to_html(record, *before) : to_html(record));
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb = add_verb(
      app, "plan",
      "What compile decides for a model's step: kernels, memory and choices. Runs no step, but "
      "for --profile.",
      chosen, [arguments] { return plan(*arguments); });
  verb->add_option("model", arguments->model, list_choices(model_names()))
      ->check(one_of(model_names()));
  verb->add_option("--scale", arguments->scale,
                   "small (launch-bound), medium or full; digits, mnist and text have one size")
      ->check(one_of({"small", "medium", "full"}))
      ->capture_default_str();
  verb->add_option("--device", arguments->device,
                   "What is planned for: cpu, or cuda, where it must be there")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--threads", arguments->threads,
                   "Threads a kernel may use; by default all cores")
      ->check(whole_number(1, 1024));
  verb->add_option("--memory-budget", arguments->memory_budget,
                   "Most bytes of the arena, as 67108864 or 64MiB: values are computed again to "
                   "keep to it, each with its price")
      ->transform(byte_count());
  verb->add_option("--dot", arguments->dot, "Write the declared graph for graphviz to a file");
  verb->add_flag("--print", arguments->print, "Print the declared graph, one line a node");
  verb->add_flag("--profile", arguments->profile,
                 "Take some steps on random numbers, and say where their time goes");
  verb->add_option("--html", arguments->html,
                   "Also write a page for a browser that shows all of it: the graph, the memory "
                   "over the step, passes, kernels; with --profile their times");
  verb->add_option("--trace", arguments->trace,
                   "With --profile: write some steps, kernel by kernel, for ui.perfetto.dev or "
                   "chrome://tracing");
  verb->add_option("--against", arguments->against,
                   "A file that --json wrote: the page also shows what differs from it");
  verb->add_option("--json", arguments->json,
                   "Also write all of it to a file: passes, nodes, memory, kernels; with --profile "
                   "their times");
}

}  // namespace metronome::commands
