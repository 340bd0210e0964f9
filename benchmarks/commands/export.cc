#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  std::optional<std::int64_t> rows;
  bool evaluate = false;
  bool beside = false;
};

/// The graph, and the names of what its evaluation answers.
struct Answering {
  Graph graph;
  std::vector<std::string> outputs;
};

/// `rows` of a batch; 0: as many as the model trains with.
Answering answering(const ExportArguments& arguments, std::int64_t rows) {
  const models::TaskEntry* task = models::find_task(arguments.model);
  if (task == nullptr) {
    return {std::move(benchmarks::answering(models::find_model(arguments.model),
                                            {models::scale_of(arguments.scale), rows})
                          .graph),
            {benchmarks::kAnswer}};
  }
  models::TaskOptions options = task->defaults();
  if (rows > 0) options.batch = rows;
  Answering made{std::move(task->declare(options).graph), {}};
  for (const Readable& readable : made.graph.data().readables()) {
    const bool of_training = made.graph.data().node(readable.declared).op->name() == "of_update";
    if (!readable.name.starts_with("loss") && !of_training) made.outputs.push_back(readable.name);
  }
  return made;
}

/// The graphs as one executable, with the numbers of a checkpoint if there is one.
Executable compile_for(const ExportArguments& arguments, std::span<const Answering> answers,
                       std::vector<Mode> modes) {
  CompileOptions options;
  options.modes = std::move(modes);
  options.evaluate_outputs = answers[0].outputs;
  std::vector<const Graph*> graphs;
  for (const Answering& each : answers) graphs.push_back(&each.graph);
  Executable step = compile(graphs, cpu_replay(), for_export(options));
  if (arguments.load) {
    for (const std::string& notice : step.load(*arguments.load)) fmt::print("{}\n", notice);
  }
  return step;
}

int write_library(const ExportArguments& arguments) {
  if (arguments.rows) throw UsageError("--rows is of an ONNX model: a library trains a batch.");
  const Answering answers = answering(arguments, 0);
  std::vector<Mode> modes{train, evaluate};
  if (arguments.evaluate) modes = {evaluate};
  Executable step = compile_for(arguments, std::span(&answers, 1), modes);
  export_library(step, arguments.place,
                 {.name = arguments.name.value_or(""), .weights_inside = !arguments.beside});
  fmt::print("wrote {0}; cmake -S {0} -B {0}/build && cmake --build {0}/build\n", arguments.place);
  return 0;
}

bool is_fed(const Graph& graph) {
  return std::ranges::any_of(graph.data().nodes(),
                             [](const Node& node) { return node.op->name() == "input"; });
}

int write_model(const ExportArguments& arguments) {
  if (arguments.name) {
    throw UsageError("--name is of a library: an ONNX model has the graph's name.");
  }
  if (arguments.beside)
    throw UsageError("--beside is of a library: an ONNX model has its weights.");
  std::vector<Answering> answers;
  answers.push_back(answering(arguments, arguments.rows.value_or(2)));
  if (!arguments.rows && is_fed(answers[0].graph)) {
    // Rows that differ become a dimension with a name; these two have little else in common.
    answers.push_back(answering(arguments, 63));
  }
  Executable step = compile_for(arguments, answers, {evaluate});
  to_onnx(step, arguments.place);
  fmt::print("wrote {}\n", arguments.place);
  return 0;
}

int run_export(const ExportArguments& arguments) {
  if (arguments.model.empty() || arguments.place.empty()) {
    throw UsageError(
        fmt::format("say which model to export, and the folder or the file.onnx that is to be "
                    "made: {}.",
                    list_choices(model_names())));
  }
  return arguments.place.ends_with(".onnx") ? write_model(arguments) : write_library(arguments);
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
  verb->add_option("--rows", arguments->rows,
                   "Rows of an ONNX model's batch; by default it takes any number of them")
      ->check(whole_number(1, 100000));
  verb->add_flag("--evaluate", arguments->evaluate,
                 "The evaluation alone, without a training step: an ONNX model always");
  verb->add_flag("--beside", arguments->beside,
                 "Weights in a file of the folder, NAME.safetensors, and not in the library");
}

}  // namespace metronome::commands
