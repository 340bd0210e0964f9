// The graph as text and for graphviz.
#include <fmt/format.h>

#include "graph/ir/graph.h"
#include "graph/ir/structural.h"

namespace metronome::ir {
namespace {

std::string label(ValueId id) {
  return id.output == 0 ? fmt::format("%{}", id.node) : fmt::format("%{}.{}", id.node, id.output);
}

/// "linear(%0, %1) {axis=-1}"; storages and inputs by name.
std::string call(const Graph& graph, const Node& node) {
  if (const Input* input = node.op->as<Input>()) return fmt::format("input {}", input->input);
  if (const Read* read = node.op->as<Read>()) {
    return fmt::format("read {}", graph.storage(read->storage).path);
  }
  if (const auto* updated = node.op->as<ReadUpdated>()) {
    return fmt::format("read updated {}", graph.storage(updated->storage).path);
  }
  std::vector<std::string> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(label(id));
  const std::string attributes = node.op->attributes();
  std::string text = fmt::format("{}({})", node.op->name(), fmt::join(inputs, ", "));
  if (!attributes.empty()) text += fmt::format(" {{{}}}", attributes);
  if (node.guard.present()) text += fmt::format(" if {}", label(node.guard));
  for (const std::int32_t before : node.waits_for) {
    text += fmt::format("{} %{}", before == node.waits_for[0] ? " after" : ",", before);
  }
  return text;
}

std::string types_of(const Node& node) {
  std::vector<std::string> types;
  for (const Type& t : node.types) types.push_back(to_string(t));
  return fmt::format("{}", fmt::join(types, ", "));
}

bool names_itself(const Node& node) {
  return node.op->as<Input>() != nullptr || node.op->as<Read>() != nullptr ||
         node.op->as<ReadUpdated>() != nullptr;
}

}  // namespace

std::string Graph::print() const {
  std::string text = fmt::format("graph \"{}\"\n", name());
  for (std::size_t i = 0; i < nodes().size(); ++i) {
    const Node& node = nodes()[i];
    std::vector<std::string> results;
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      results.push_back(label({static_cast<std::int32_t>(i), static_cast<std::int32_t>(k)}));
    }
    text +=
        fmt::format("  {} = {} : {}", fmt::join(results, ", "), call(*this, node), types_of(node));
    if (!names_itself(node)) text += fmt::format("  \"{}\"", node.path);
    text += '\n';
  }
  for (const Readable& r : readables()) {
    if (r.value.present()) text += fmt::format("  \"{}\" is {}\n", r.name, label(r.value));
  }
  for (const Assignment& a : assignments()) {
    text += fmt::format("  {} := {}\n", storage(a.storage).path, label(a.value));
  }
  return text;
}

std::string Graph::dot() const {
  std::string text = fmt::format(
      "digraph \"{}\" {{\n  rankdir=TB;\n  node [shape=box, fontname=\"Helvetica\", "
      "fontsize=10];\n",
      name());
  for (std::size_t i = 0; i < nodes().size(); ++i) {
    const Node& node = nodes()[i];
    const char* style = node.op->as<Input>() != nullptr  ? ", style=filled, fillcolor=lightblue"
                        : node.op->as<Read>() != nullptr ? ", style=filled, fillcolor=lightyellow"
                                                         : "";
    text += fmt::format("  n{} [label=\"{}\\n{}\\n{}\"{}];\n", i, node.op->name(), node.path,
                        types_of(node), style);
    for (const ValueId input : node.inputs) text += fmt::format("  n{} -> n{};\n", input.node, i);
    if (node.guard.present()) {
      text += fmt::format("  n{} -> n{} [style=dotted];\n", node.guard.node, i);
    }
    for (const std::int32_t before : node.waits_for) {
      text += fmt::format("  n{} -> n{} [style=dashed, color=gray];\n", before, i);
    }
  }
  for (const Assignment& a : assignments()) {
    text += fmt::format("  s{} [label=\"{}\", style=filled, fillcolor=lightyellow];\n",
                        a.storage.index, storage(a.storage).path);
    text += fmt::format("  n{} -> s{} [style=dashed];\n", a.value.node, a.storage.index);
  }
  return text + "}\n";
}

}  // namespace metronome::ir
