#include "executor/onnx/to_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "executor/onnx/evaluation.h"
#include "executor/onnx/mappings.h"
#include "executor/onnx/model.h"
#include "executor/onnx/node_writer.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace onnx {
namespace {

/// Turns an evaluation into a model: inputs and weights, then node by node, then outputs.
class ModelMaker {
 public:
  ModelMaker(Executable::Impl& step, const Evaluation& evaluation, const OnnxOptions& options)
      : step_(step), evaluation_(evaluation), average_(options.with) {
    model_.name = graph().name().empty() ? "graph" : graph().name();  // which ONNX asks for
    model_.opset = options.opset;
  }

  OnnxModel make() {
    const auto count = static_cast<std::int32_t>(graph().nodes().size());
    for (std::int32_t i = 0; i < count; ++i) add_source(i);
    const std::vector<Output> outputs = reserve_outputs();
    for (std::int32_t i = 0; i < count; ++i) {
      if (is_source(graph().nodes()[i])) continue;
      writer_.begin(i);
      writer_.finish(write_node(writer_));
    }
    for (const Output& output : outputs) add_output(output);
    for (OnnxNode& node : model_.nodes) rename(node);
    return std::move(model_);
  }

 private:
  struct Output {
    std::string name;
    ValueId value;
  };

  const ir::Graph& graph() const { return evaluation_.graphs[0]; }

  static bool is_source(const Node& node) {
    return node.op->as<Input>() != nullptr || node.op->as<Read>() != nullptr;
  }

  void add_source(std::int32_t i) {
    writer_.begin(i);
    const Op& op = *graph().nodes()[i].op;
    if (const auto* input = op.as<Input>()) writer_.finish({add_input(input->input)});
    if (const auto* read = op.as<Read>()) {
      const Storage& storage = graph().storage(read->storage);
      writer_.finish(
          {storage.kind == StorageKind::state ? add_input(storage.path) : add_weight(storage)});
    }
  }

  std::string add_input(const std::string& name) {
    const std::string own = writer_.new_name(name);
    writer_.add_input(own, writer_.result().element, writer_.result_sizes());
    sources_.insert(own);
    return own;
  }

  std::string add_weight(const Storage& storage) {
    const Tensor tensor = step_.storages.get(step_.storages.storage_of(path_of(storage)));
    std::vector<std::byte> bytes(tensor.bytes());
    copy_row_major(bytes.data(), tensor);
    const std::string own = writer_.add_weight(storage.path, storage.type, std::move(bytes));
    sources_.insert(own);
    return own;
  }

  /// The path of the storage that the evaluation reads: an average stands in its parameter's place,
  /// and the parameter in its.
  std::string path_of(const Storage& storage) const {
    if (average_.empty()) return storage.path;
    const std::string below = fmt::format("{}/{}/", kAveragesRoot, average_);
    if (storage.kind == StorageKind::average && storage.path.starts_with(below)) {
      return storage.path.substr(below.size());
    }
    const std::vector<std::string> paths = step_.storages.paths();
    const std::string average = below + storage.path;
    const bool kept =
        storage.kind == StorageKind::parameter && std::ranges::find(paths, average) != paths.end();
    return kept ? average : storage.path;
  }

  /// The names of outputs, before operators take them: values that can be read, then the next
  /// values of states.
  std::vector<Output> reserve_outputs() {
    std::vector<Output> outputs;
    for (const Readable& readable : graph().readables()) {
      if (readable.value.present()) {
        outputs.push_back({writer_.new_name(readable.name), readable.value});
      }
    }
    for (const Assignment& next : graph().assignments()) {
      const std::string& path = graph().storage(next.storage).path;
      outputs.push_back({writer_.new_name(path + "/next"), next.value});
    }
    if (outputs.empty()) {
      throw RunError(
          fmt::format("graph \"{}\" cannot be written to ONNX: its evaluation computes nothing "
                      "that can be read",
                      graph().name()));
    }
    return outputs;
  }

  void add_output(const Output& output) {
    writer_.begin(output.value.node);
    std::string made = writer_.name_of(output.value);
    if (sources_.contains(made) || is_constant(made) || renamed_.contains(made)) {
      made = writer_.call("Identity", {made});
    }
    renamed_[made] = output.name;
    const Type& type = graph().type(output.value);
    const auto result = static_cast<std::size_t>(output.value.output);
    model_.outputs.push_back(
        {output.name, type.element, writer_.ports(writer_.result_sizes(result))});
  }

  bool is_constant(const std::string& name) const {
    return std::ranges::find(model_.initializers, name, &OnnxTensor::name) !=
           model_.initializers.end();
  }

  void rename(OnnxNode& node) const {
    for (Names* names : {&node.inputs, &node.outputs}) {
      for (std::string& name : *names) {
        const auto found = renamed_.find(name);
        if (found != renamed_.end()) name = found->second;
      }
    }
  }

  Executable::Impl& step_;
  const Evaluation& evaluation_;
  std::string average_;
  OnnxModel model_;
  NodeWriter writer_{evaluation_, model_};
  std::set<std::string> sources_;               // inputs and weights
  std::map<std::string, std::string> renamed_;  // values that became outputs
};

}  // namespace
}  // namespace onnx

void to_onnx(Executable& step, const std::string& file, const OnnxOptions& options) {
  Executable::Impl& impl = step.require_impl();
  if (options.opset != 17 && options.opset != onnx::kAttentionOpset) {
    throw RunError(
        fmt::format("{} cannot be written with ONNX's operators of version {}: give 17 or 23",
                    impl.declared.prefix(), options.opset));
  }
  impl.storages.require_whole();
  const onnx::Evaluation evaluation = onnx::make_evaluation(impl, options);
  onnx::write_model(onnx::ModelMaker(impl, evaluation, options).make(), file);
}

}  // namespace metronome
