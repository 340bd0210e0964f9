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
  std::string place;
  std::string scale = "small";
  std::optional<std::string> load;
  std::optional<std::string> name;
  bool evaluate = false;
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
  if (arguments.model.empty() || arguments.place.empty()) {
    throw UsageError(
        fmt::format("say which model to export, and the folder or the file.onnx that is to be "
                    "made: {}.",
                    list_choices(model_names())));
  }
  const bool to_file = arguments.place.ends_with(".onnx");
  if (to_file && arguments.name) {
    throw UsageError("--name is of a library: an ONNX model has the graph's name.");
  }
  const Answering answers = answering(arguments);
  CompileOptions options;
  options.modes = {train, evaluate};
  if (arguments.evaluate || to_file) options.modes = {evaluate};
  options.evaluate_outputs = answers.outputs;
  Executable step = compile(answers.graph, cpu_replay(), for_export(options));
  if (arguments.load) {
    for (const std::string& notice : step.load(*arguments.load)) fmt::print("{}\n", notice);
  }
  if (to_file) {
    to_onnx(step, arguments.place);
    fmt::print("wrote {}\n", arguments.place);
    return 0;
  }
  export_library(step, arguments.place, {.name = arguments.name.value_or("")});
  fmt::print("wrote {0}; cmake -S {0} -B {0}/build && cmake --build {0}/build\n", arguments.place);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* verb =
      add_verb(app, "export",
               "A model as a library for C and C++, training steps included: a folder "
               "that CMake builds without Metronome and libtorch. Or its evaluation as "
               "an ONNX model, a file.",
               chosen, [arguments] { return run_export(*arguments); });
  verb->add_option("model", arguments->model, list_choices(model_names()))
      ->check(one_of(model_names()));
  verb->add_option("place", arguments->place,
                   "The folder of a library, which must not exist; or a file whose name ends in "
                   ".onnx");
  verb->add_option("--scale", arguments->scale,
                   "small (launch-bound), medium or full; digits, mnist and text have one size")
      ->check(one_of({"small", "medium", "full"}))
      ->capture_default_str();
  verb->add_option("--load", arguments->load,
                   "A checkpoint that train --checkpoint wrote: its numbers");
  verb->add_option("--name", arguments->name,
                   "What all names of the library begin with; by default the model's name");
  verb->add_flag("--evaluate", arguments->evaluate,
                 "The evaluation alone, without a training step: an ONNX model always");
}

}  // namespace metronome::commands
