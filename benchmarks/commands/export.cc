#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/declared_model.h"
#include "benchmarks/inference/answering.h"
#include "executor/metronome/export.h"
#include "graph/ir/graph.h"

namespace metronome::commands {
namespace {

struct ExportArguments {
  std::string model;
  std::string folder;
  std::string scale = "small";
  std::optional<std::string> load;
  std::optional<std::string> name;
  bool evaluate = false;
  bool beside = false;
};

/// The graph, and the names of what its evaluation answers.
struct Answering {
  Graph graph;
  std::vector<std::string> outputs;
};

Answering answering(const ExportArguments& arguments) {
  if (models::find_task(arguments.model) == nullptr) {
    return {std::move(benchmarks::answering(models::find_model(arguments.model),
                                            models::scale_of(arguments.scale))
                          .graph),
            {benchmarks::kAnswer}};
  }
  Answering made{std::move(declare_model(arguments.model, arguments.scale).model.graph), {}};
  for (const Readable& readable : made.graph.data().readables()) {
    const bool of_training = made.graph.data().node(readable.declared).op->name() == "of_update";
    if (!readable.name.starts_with("loss") && !of_training) made.outputs.push_back(readable.name);
  }
  return made;
}

int run_export(const ExportArguments& arguments) {
  if (arguments.model.empty() || arguments.folder.empty()) {
    throw UsageError(
        fmt::format("say which model to export, and the folder that is to be made: {}.",
                    list_choices(model_names())));
  }
  const Answering answers = answering(arguments);
  CompileOptions options;
  options.modes = {train, evaluate};
  if (arguments.evaluate) options.modes = {evaluate};
  options.evaluate_outputs = answers.outputs;
  Executable step = compile(answers.graph, cpu_replay(), for_export(options));
  if (arguments.load) {
    for (const std::string& notice : step.load(*arguments.load)) fmt::print("{}\n", notice);
  }
  export_library(step, arguments.folder,
                 {.name = arguments.name.value_or(""), .weights_inside = !arguments.beside});
  fmt::print("wrote {0}; cmake -S {0} -B {0}/build && cmake --build {0}/build\n", arguments.folder);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* verb = add_verb(app, "export",
                            "A model as a library for C and C++, training steps included: a folder "
                            "that CMake builds without Metronome and libtorch.",
                            chosen, [arguments] { return run_export(*arguments); });
  verb->add_option("model", arguments->model, list_choices(model_names()))
      ->check(one_of(model_names()));
  verb->add_option("folder", arguments->folder, "Where it is written; it must not exist");
  verb->add_option("--scale", arguments->scale,
                   "small (launch-bound), medium or full; digits, mnist and text have one size")
      ->check(one_of({"small", "medium", "full"}))
      ->capture_default_str();
  verb->add_option("--load", arguments->load,
                   "A checkpoint that train --checkpoint wrote: its numbers");
  verb->add_option("--name", arguments->name,
                   "What all names of the library begin with; by default the model's name");
  verb->add_flag("--evaluate", arguments->evaluate,
                 "The evaluation alone, without a training step");
  verb->add_flag("--beside", arguments->beside,
                 "Weights in a file of the folder, NAME.safetensors, and not in the library");
}

}  // namespace metronome::commands
