// Writes ONNX models, and what Metronome makes of the same numbers:
//
//   onnx_cases FOLDER KIND OPSET
//
//   FOLDER/NAME.onnx     what `to_onnx` writes
//   FOLDER/NAME.RUN      arrays that are fed and read
//   FOLDER/refused       a line for each that is refused: name, a tab, the error
//
// KIND is what is written: `ops`, each case of each op; `models`, the shipped models; `programs`,
// random ones; `shapes`, those of several shapes; `layers`, each in a small graph; `sizes`, small
// graphs whose sizes have names, run at a size that was not compiled; `steps` and `edges`, which
// onnx_steps.cc has. Read by onnx_test.py.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/batches.h"
#include "models/models.h"
#include "ops/ops.h"
#include "tests/export/onnx_case_writer.h"
#include "tests/export/onnx_graphs.h"
#include "tests/export/onnx_layers.h"
#include "tests/ops/case_graph.h"
#include "tests/ops/structural_cases.h"
#include "tests/random/builder.h"
#include "tests/random/run.h"

namespace metronome {
namespace {

// ---- ops ----------------------------------------------------------------------------------------

void write_case(tests::OnnxCaseWriter& writer, const Case& c, std::size_t number) {
  for (const Element element : {f32, f64}) {
    CaseGraph made(c, element, false);
    std::vector<Feed> feeds;
    for (std::size_t i = 0; i < made.operands(); ++i) {
      feeds.push_back({made.names[i], made.tensors[i]});
    }
    const std::string name = fmt::format("{}-{}-{}", c.op->name(), number, name_of(element));
    writer.write(name, made.graph, feeds);
  }
}

template <class Op>
void write_op(tests::OnnxCaseWriter& writer) {
  std::size_t number = 0;
  for (const Case& c : CasesOf<Op>::cases()) {
    const bool of_gradients =
        c.op->name().find("_grad") != std::string_view::npos;  // which no evaluation has
    if (!of_gradients) write_case(writer, c, number++);
  }
}

template <class... Ops>
void write_ops(tests::OnnxCaseWriter& writer, OpList<Ops...>) {
  (write_op<Ops>(writer), ...);
}

/// Ops of forward passes; gradients and updates are in no evaluation.
using WrittenOps =
    OpList<Fill, Constant, Elementwise, Cast, Matmul, Linear, Convolution, TransposedConvolution,
           LayerNorm, RmsNorm, BatchNormEvaluate, Softmax, Reduce, ArgMax, Expand, Transpose, Slice,
           Concat, Embedding, Pick, Gather, ScatterAdd, Cumsum, Sort, Pad, MaxPool, AvgPool,
           AdaptiveAvgPool, Upsample, Reshape, Attention, Chunk, RecurrentSequence, MseLoss, L1Loss,
           SmoothL1Loss, CrossEntropyLoss, BceWithLogitsLoss, Route, FlashAttention>;

// ---- models -------------------------------------------------------------------------------------

/// The model with its answer as an output.
models::Model answering(const models::ModelEntry& entry, models::Size size, Element element) {
  models::Model model = entry.make(size, element);
  model.graph.output("answer", model.answer);
  return model;
}

void write_models(tests::OnnxCaseWriter& writer) {
  for (const models::ModelEntry& entry : models::all_models()) {
    for (const Element element : {f32, f64}) {
      const models::Model model = answering(entry, models::Scale::small, element);
      const benchmarks::Batches batches(model, 1);
      writer.write(fmt::format("{}-{}", entry.name, name_of(element)), model.graph,
                   batches.of_step(0));
    }
    // Its rows have a name: 3 of them were not compiled.
    const models::Model two = answering(entry, {models::Scale::small, 2}, f32),
                        five = answering(entry, {models::Scale::small, 5}, f32),
                        three = answering(entry, {models::Scale::small, 3}, f32);
    const std::string name = fmt::format("{}-rows", entry.name);
    Executable step =
        compile({&two.graph, &five.graph}, cpu_replay(), tests::onnx_evaluation({"answer"}));
    if (!writer.write_model(name, step)) continue;
    Executable other = compile(three.graph, cpu_replay(), tests::onnx_evaluation({"answer"}));
    other.load(step.snapshot());
    writer.write_arrays(name + ".3", three.graph, other, benchmarks::Batches(three, 1).of_step(0));
  }
}

// ---- random programs ----------------------------------------------------------------------------

void write_programs(tests::OnnxCaseWriter& writer, std::uint32_t count) {
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    const random_programs::Program program = random_programs::generate(seed);
    random_programs::Builder builder(program);
    builder.build();
    const Graph& graph = builder.graph();
    writer.write(fmt::format("program-{}", seed), graph,
                 random_programs::feeds(graph.data(), seed, 0));
  }
}

/// A program whose first size is another.
std::unique_ptr<random_programs::Builder> with_rows(random_programs::Program& program,
                                                    std::int64_t rows) {
  program.shape[0] = rows;
  auto builder = std::make_unique<random_programs::Builder>(program);
  builder->build();
  return builder;
}

/// Programs that can be built of 3, 5 and 4 rows and then differ in sizes alone; 4 is not compiled.
void write_shapes(tests::OnnxCaseWriter& writer, std::uint32_t count) {
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    std::array<random_programs::Program, 3> programs;
    programs.fill(random_programs::generate(seed));
    const auto three = with_rows(programs[0], 3), five = with_rows(programs[1], 5),
               four = with_rows(programs[2], 4);
    const std::string name = fmt::format("shape-{}", seed);
    const CompileOptions options = tests::onnx_evaluation();
    try {
      Executable all =
          compile({&three->graph(), &four->graph(), &five->graph()}, cpu_replay(), options);
      if (!writer.write_model(name, all)) continue;
      Executable step = compile({&three->graph(), &five->graph()}, cpu_replay(), options);
      writer.write_model(name, step);
      Executable other = compile(four->graph(), cpu_replay(), options);
      other.load(step.snapshot());
      writer.write_arrays(name + ".4", four->graph(), other,
                          random_programs::feeds(four->graph().data(), seed, 0));
    } catch (const GraphError&) {  // a weight has its size by the rows
    }
  }
}

// ---- layers -------------------------------------------------------------------------------------

void write_layers(tests::OnnxCaseWriter& writer) {
  for (const tests::LayerGraph& layer : tests::kLayerGraphs) {
    for (const Element element : {f32, f64}) {
      Graph graph("layer");
      graph.output("y", layer.declare(graph, element));
      writer.write(fmt::format("{}-{}", layer.name, name_of(element)), graph,
                   random_programs::feeds(graph.data(), 1, 0));
    }
  }
}

// ---- sizes --------------------------------------------------------------------------------------

void write_sizes(tests::OnnxCaseWriter& writer) {
  for (const tests::SizedGraph& sized : tests::kSizedGraphs) {
    const auto declare = [&](std::int64_t rows, std::int64_t length) {
      Graph graph("sized");
      graph.output("y", sized.declare(graph, rows, length));
      return graph;
    };
    const Graph small = declare(2, 3), large = declare(5, 7), other = declare(3, 6);
    Executable step = compile({&small, &large}, cpu_replay(), tests::onnx_evaluation());
    if (!writer.write_model(sized.name, step)) continue;
    Executable third = compile(other, cpu_replay(), tests::onnx_evaluation());
    third.load(step.snapshot());
    writer.write_arrays(fmt::format("{}.36", sized.name), other, third,
                        random_programs::feeds(other.data(), 1, 0));
  }
}

}  // namespace
}  // namespace metronome

int main(int argc, char** argv) {
  using namespace metronome;
  if (argc != 4) return 2;
  const std::string kind = argv[2];
  tests::OnnxCaseWriter writer(argv[1], std::stoll(argv[3]));
  if (kind == "ops") write_ops(writer, WrittenOps{});
  if (kind == "models") write_models(writer);
  if (kind == "programs") write_programs(writer, 300);
  if (kind == "layers") write_layers(writer);
  if (kind == "sizes") write_sizes(writer);
  if (kind == "shapes") write_shapes(writer, 1000);
  if (kind == "steps") tests::write_steps(writer);
  if (kind == "edges") tests::write_edges(writer);
  return 0;
}
