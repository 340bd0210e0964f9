#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "models/commands/commands.h"
#include "models/commands/files.h"
#include "models/commands/profile.h"
#include "models/digits.h"
#include "models/models.h"

namespace metronome::commands {
namespace {

struct Arguments {
  std::string model;
  std::string scale = "small";
  std::optional<std::string> dot;
  int threads = 0;
  bool print = false;
  bool profile = false;
};

struct Model {
  Graph graph;
  std::vector<Value> inputs;
};

Model model_of(const Arguments& arguments) {
  if (arguments.model == "digits") {
    models::DigitsModel digits = models::digits();
    return {std::move(digits.graph), {digits.pixels, digits.labels}};
  }
  models::Model model =
      models::find_model(arguments.model).make(models::scale_of(arguments.scale), f32);
  return {std::move(model.graph), {model.input, model.target}};
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const models::ModelEntry& entry : models::all_models()) names.emplace_back(entry.name);
  names.emplace_back("digits");
  return names;
}

int plan(const Arguments& arguments) {
  if (arguments.model.empty()) {
    throw UsageError(fmt::format("say which model to plan: {}.", listed(names())));
  }
  const Model model = model_of(arguments);
  const Graph& graph = model.graph;
  if (arguments.dot) write_whole(*arguments.dot, graph.dot());
  if (arguments.print) fmt::print("{}\n", graph.print());
  CompileOptions options{.threads = arguments.threads};
  if (arguments.model == "digits") options.modes = {train, evaluate};
  Executable executable = compile(graph, cpu_replay(), options);
  fmt::print("{}", to_string(executable.report()));
  if (arguments.profile) fmt::print("{}", profile_of(executable, model.inputs));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(
      app, "plan",
      "What compile decides for a model's step: kernels, memory and choices. Runs no step, but "
      "for --profile.",
      chosen, [arguments] { return plan(*arguments); });
  verb->add_option("model", arguments->model, listed(names()))->check(one_of(names()));
  verb->add_option("--scale", arguments->scale, "small (launch-bound) or full; digits has one size")
      ->check(one_of({"small", "full"}))
      ->capture_default_str();
  verb->add_option("--threads", arguments->threads,
                   "Threads a kernel may use; by default all cores")
      ->check(whole_number(1, 1024));
  verb->add_option("--dot", arguments->dot, "Write the declared graph for graphviz to a file");
  verb->add_flag("--print", arguments->print, "Print the declared graph, one line a node");
  verb->add_flag("--profile", arguments->profile,
                 "Take some steps on random numbers, and say where their time goes");
}

}  // namespace metronome::commands
