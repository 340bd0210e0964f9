#include "executor/engine/plan_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "graph/compounds/channels_last.h"
#include "graph/compounds/group.h"
#include "graph/ir/structural.h"
#include "graph/rules/guards.h"

namespace metronome::executor {

bool has_kernel(const ir::Graph& graph, const Node& node) {
  if (node.op->as<Input>() != nullptr || node.op->as<Read>() != nullptr) return false;
  return !graph.alias(node);
}

std::size_t kernels_of(const ir::Graph& graph) {
  return static_cast<std::size_t>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(),
                    [&](const Node& node) { return has_kernel(graph, node); }));
}

std::string describe(const Node& node) {
  const std::string attributes = node.op->attributes();
  const std::string line = to_string(node.line);
  return fmt::format("{}{} \"{}\"{}", node.op->name(),
                     attributes.empty() ? "" : fmt::format(" {{{}}}", attributes), node.path,
                     line.empty() ? "" : fmt::format(" ({})", line));
}

std::string describe(const Node& node, std::span<const Type> inputs) {
  std::vector<std::string> texts;
  for (const Type& t : inputs) texts.push_back(to_string(t));
  const std::string attributes = node.op->attributes();
  return fmt::format("{}{} {}", node.op->name(),
                     attributes.empty() ? "" : fmt::format(" {{{}}}", attributes),
                     fmt::join(texts, " x "));
}

namespace {

/// Passes that make a training step say in paths what they made.
Phase phase_of(const Node& node) {
  if (node.op->as<AverageUpdate>() != nullptr || node.op->as<AverageWeight>() != nullptr) {
    return Phase::update;
  }
  const std::string path = node.path.get() + "/";
  if (path.starts_with(fmt::format("{}/", kMomentsRoot))) return Phase::update;
  const bool packed = node.op->as<Pack>() != nullptr || path.starts_with("gradients/");
  return packed || path.find(".grad/") != path.npos ? Phase::backward : Phase::forward;
}

/// "mul (2), add": the ops of a group, each once, in the order in which they come first.
std::string members_of(const Node& node) {
  const Group* group = node.op->as<Group>();
  if (group == nullptr) return "";
  std::vector<std::pair<std::string, int>> counts;
  std::istringstream names(group->names());
  for (std::string name; names >> name;) {
    auto known = std::ranges::find(counts, name, &std::pair<std::string, int>::first);
    if (known == counts.end()) known = counts.insert(counts.end(), {name, 0});
    ++known->second;
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    if (!text.empty()) text += ", ";
    text += count == 1 ? name : fmt::format("{} ({})", name, count);
  }
  return text;
}

}  // namespace

KernelTime kernel_of(const ir::Graph& graph, const Node& node) {
  const auto* last = node.op->as<ChannelsLast>();
  const Op* const own = last != nullptr ? last->op.get() : node.op.get();
  const Types operands = graph.operands(node);
  double bytes = 0;
  for (const Type& type : operands) bytes += static_cast<double>(type.bytes());
  for (const Type& type : node.types) bytes += static_cast<double>(type.bytes());
  return {.kernel = describe(node),
          .op = std::string(own->name()),
          .members = members_of(node),
          .path = node.path,
          .line = to_string(node.line),
          .phase = phase_of(node),
          .bytes = bytes,
          .flops = node.op->flops(operands, node.types)};
}

KernelTime kernel_of_assignment(const ir::Graph& graph, const Assignment& assignment) {
  const Storage& storage = graph.storage(assignment.storage);
  return {.kernel = fmt::format("assign \"{}\"", storage.path),
          .op = "assign",
          .path = storage.path,
          .line = to_string(storage.line),
          .phase = Phase::update,
          .bytes = 2.0 * static_cast<double>(storage.stored_type().bytes())};
}

KernelTime kernel_of(std::string executor_work) {
  return {.kernel = executor_work, .op = executor_work};
}

ValueId guard_of(const Plan& plan, std::int32_t index) {
  const Node& node = plan.graph.nodes()[index];
  for (const InPlace& right : node.op->in_place()) {
    const int guard = idle_unless(*node.op, right);
    if (guard < 0) continue;
    const ValueId under = node.inputs[right.input];
    const plan::Place& place = plan.memory.places[index][right.output];
    if (place.in != plan::Place::Kind::none &&
        place == plan.memory.places[under.node][under.output]) {
      return node.inputs[guard];
    }
  }
  return node.guard;
}

std::optional<View> view_of(const ir::Graph& graph, ValueId value) {
  const Node& node = graph.node(value);
  const auto alias = graph.alias(node);
  if (!alias || alias->output != value.output) return std::nullopt;
  return View{node.inputs[alias->input], alias->offset};
}

std::optional<StorageId> parameter_of(const ir::Graph& graph, ValueId value) {
  while (const auto view = view_of(graph, value)) value = view->of;
  const Read* read = graph.node(value).op->as<Read>();
  if (read == nullptr) return std::nullopt;
  const Storage& storage = graph.storages()[read->storage.index];
  if (storage.kind != StorageKind::parameter) return std::nullopt;
  return read->storage;
}

SteadyOperands parameters_of(const ir::Graph& graph, const Node& node) {
  SteadyOperands parameters;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (parameter_of(graph, node.inputs[i])) parameters.add(i);
  }
  return parameters;
}

}  // namespace metronome::executor
