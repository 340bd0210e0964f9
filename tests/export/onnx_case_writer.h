// Models that onnx_test.py runs, and the arrays that it compares.
#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/export.h"
#include "graph/ir/graph.h"
#include "ops/reference/elements.h"

namespace metronome::tests {

/// The options of an evaluation, the same on each machine.
inline CompileOptions onnx_evaluation(std::vector<std::string> outputs = {}) {
  return {.modes = {evaluate},
          .seed = 3,
          .evaluate_outputs = std::move(outputs),
          .threads = 1,
          .tune = Tune::off};
}

/// Arrays by name, as one file: each a line "in" or "out", name, element and sizes, with tabs
/// between them, and then its bytes.
class ArraysFile {
 public:
  explicit ArraysFile(const std::filesystem::path& file) : out_(file, std::ios::binary) {}

  void add(const char* kind, const std::string& name, const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    const std::string sizes = fmt::format("{}", fmt::join(dense.sizes(), " "));
    const std::string_view element = name_of(from_torch(dense.scalar_type()));
    out_ << fmt::format("{}\t{}\t{}\t{}\n", kind, name, element, sizes);
    out_.write(static_cast<const char*>(dense.const_data_ptr()),
               static_cast<std::streamsize>(dense.nbytes()));
  }

 private:
  std::ofstream out_;
};

class OnnxCaseWriter {
 public:
  OnnxCaseWriter(std::filesystem::path folder, std::int64_t opset)
      : folder_(std::move(folder)), opset_(opset), refused_(folder_ / "refused") {}

  std::filesystem::path file(const std::string& name) const { return folder_ / name; }

  /// False if the model was refused.
  bool write_model(const std::string& name, Executable& step, OnnxOptions options = {}) {
    options.opset = opset_;
    try {
      to_onnx(step, file(name + ".onnx").string(), options);
      return true;
    } catch (const RunError& error) {
      refused_ << name << "\t" << error.what() << "\n";
      return false;
    }
  }

  /// The feeds and the results of an evaluation of `step`, which is of the graph, and its states
  /// before and after it.
  void write_arrays(const std::string& name, const Graph& graph, Executable& step,
                    std::span<const Feed> feeds, const EvaluateOptions& options = {}) {
    ArraysFile arrays(file(name));
    const auto add_states = [&](const char* kind, const std::string& end) {
      for (const Storage& storage : graph.data().storages()) {
        if (storage.kind != StorageKind::state) continue;
        arrays.add(kind, storage.path + end, step.get(storage.path));
      }
    };
    for (const Feed& feed : feeds) arrays.add("in", std::string(feed.name), feed.tensor());
    add_states("in", "");
    step.evaluate(feeds, options);
    for (const Readable& readable : graph.data().readables()) {
      try {
        arrays.add("out", readable.name, step.read(readable.name));
      } catch (const RunError&) {  // a number of training, which is no output
      }
    }
    add_states("out", "/next");
  }

  void write(const std::string& name, const Graph& graph, std::span<const Feed> feeds) {
    Executable step = compile(graph, cpu_replay(), onnx_evaluation());
    if (write_model(name, step)) write_arrays(name + ".0", graph, step, feeds);
  }

 private:
  std::filesystem::path folder_;
  std::int64_t opset_;
  std::ofstream refused_;
};

/// Steps that hand on states, averages in the place of parameters, names that clash, and weights
/// beside a model.
void write_steps(OnnxCaseWriter& writer);
/// Functions of NaN, infinities, zeros and numbers far out; lookups out of range.
void write_edges(OnnxCaseWriter& writer);

}  // namespace metronome::tests
