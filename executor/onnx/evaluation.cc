#include "executor/onnx/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "executor/compile/evaluation_graphs.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/walk/copier.h"
#include "ops/ops.h"

namespace metronome::onnx {
namespace {

using executor::DeclaredGraphs;
using executor::StepKind;

/// The kind of steps that is written: they hand states on if the executable was compiled to that.
StepKind kind_of(const DeclaredGraphs& declared, const OnnxOptions& options) {
  StepKind kind{Mode::advance, declared.average_of(options.with)};
  if (declared.graphs_compiled_to(kind, options.graph).empty()) kind.mode = Mode::evaluate;
  declared.require_compiled(kind);
  declared.require_choice(kind, options.graph);
  return kind;
}

/// Whether ONNX has an operator for the composite. ONNX Runtime has recurrent ones of f32 alone; so
/// is the eps of a norm.
bool is_whole(const Op& op, std::span<const Type> operands, std::int64_t opset) {
  const bool is_new = opset >= kAttentionOpset;
  if (op.as<RecurrentSequence>() != nullptr) return operands[0].element == f32;
  if (op.as<RmsNorm>() != nullptr) return is_new && operands[0].element == f32;
  const auto* attention = op.as<Attention>();
  return attention != nullptr && is_new && is_one_operator(*attention, operands);
}

/// Attention that is no operator in products and a softmax, whatever its sizes: `lower` may make
/// blocks of it, for which ONNX has nothing.
ir::Graph expand_attention(const ir::Graph& graph, std::int64_t opset) {
  passes::Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    const auto* attention = node.op->as<Attention>();
    if (attention == nullptr || is_whole(*node.op, graph.operands(node), opset)) {
      copier.copy(i);
      continue;
    }
    PassScope scope(copier.emitter, node.path, node.line, copier.guard_of(node));
    copier.replace(i, {attention->compose(copier.inputs_of(node), 0, node.line)});
  }
  return copier.finish();
}

ir::Graph evaluation_of(const ir::Graph& declared, Mode mode,
                        const std::vector<std::string>& outputs, std::int64_t opset) {
  const auto keeps = [opset](const OpPtr& op, std::span<const Type> operands) {
    return op->as<Attention>() != nullptr || is_whole(*op, operands, opset);
  };
  const Settings settings{.mode = mode, .keeps = keeps};
  ir::Graph graph = executor::compile::limit_outputs(declared, outputs);
  graph = passes::for_mode(std::move(graph), settings);
  for (std::size_t k = graph.objectives().size(); k-- > 0;) graph.erase_objective(k);
  std::vector<Assignment> states;
  for (const Assignment& a : graph.assignments()) {
    if (graph.storage(a.storage).kind == StorageKind::state) states.push_back(a);
  }
  graph.set_assignments(states);
  graph = passes::prune(std::move(graph), settings);
  graph = passes::lower(std::move(graph), settings);
  graph = expand_attention(graph, opset);
  return passes::prune(passes::lower(std::move(graph), settings), settings);
}

std::string describe(const ir::Graph& graph, const Node& node) {
  return fmt::format("{} {} of graph \"{}\"", node.op->name(), place_of(node), graph.name());
}

bool are_alike(const ir::Graph& first, const Node& a, const ir::Graph& other, const Node& b) {
  if (a.op->kind() != b.op->kind() || a.op->name() != b.op->name() || a.inputs != b.inputs ||
      a.guard != b.guard || a.types.size() != b.types.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.types.size(); ++i) {
    if (a.types[i].element != b.types[i].element || a.types[i].rank() != b.types[i].rank()) {
      return false;
    }
  }
  const auto* read = a.op->as<Read>();
  return read == nullptr || first.storage(read->storage).kind == StorageKind::state ||
         first.storage(read->storage).path == other.storage(b.op->as<Read>()->storage).path;
}

/// The first difference of two graphs that is none of sizes, in words.
std::optional<std::string> difference(const ir::Graph& first, const ir::Graph& other) {
  const std::size_t count = std::min(first.nodes().size(), other.nodes().size());
  for (std::size_t i = 0; i < count; ++i) {
    const Node &a = first.nodes()[i], &b = other.nodes()[i];
    if (!are_alike(first, a, other, b)) {
      return fmt::format("{} is {}", describe(first, a), describe(other, b));
    }
  }
  const bool first_ends = first.nodes().size() == count;
  if (other.nodes().size() == first.nodes().size()) return std::nullopt;
  return fmt::format("{} is in that graph alone", first_ends
                                                      ? describe(other, other.nodes()[count])
                                                      : describe(first, first.nodes()[count]));
}

}  // namespace

std::string place_of(const Node& node) {
  const std::string line = node.line.known() ? fmt::format(" ({})", to_string(node.line)) : "";
  return fmt::format("\"{}\"{}", node.path.get(), line);
}

Evaluation make_evaluation(const Executable::Impl& step, const OnnxOptions& options) {
  const DeclaredGraphs& declared = step.declared;
  Evaluation made{kind_of(declared, options), {}};
  for (const std::size_t k : declared.graphs_compiled_to(made.kind, options.graph)) {
    made.graphs.push_back(evaluation_of(declared[k].graph, made.kind.mode,
                                        step.options.evaluate_outputs, options.opset));
    const auto differs = difference(made.graphs[0], made.graphs.back());
    if (!differs) continue;
    throw RunError(fmt::format(
        "{} cannot be written to ONNX: its graphs differ in more than sizes: {}; choose one by "
        "OnnxOptions::graph",
        declared.prefix(), *differs));
  }
  return made;
}

}  // namespace metronome::onnx
