// The nodes of a graph, and those of regions in it:
//
//   %a = wrap_with_set_grad_enabled(False, submod_1, %x)      %submod_1.sin = aten.sin(%x)
//   submod_1(%x_1): %sin = aten.sin(%x_1); return %sin        %a = aten.detach(%submod_1.sin)
//
// Those of torch.cond and its like stay: their nodes follow the one that runs them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/import/file/json.h"

namespace metronome::pt2 {
namespace {

/// "net.py:9 in forward" of the last of the user's own lines in a stack trace: torch's are left
/// out.
std::string where_of(const Json& node) {
  if (!node.contains("metadata") || !node["metadata"].is_object()) return "";
  const std::string trace = node["metadata"].value("stack_trace", "");
  std::string found;
  for (std::size_t at = trace.find("File \""); at != trace.npos;
       at = trace.find("File \"", at + 1)) {
    const std::size_t file = at + 6, end = trace.find('"', file);
    const std::size_t line = trace.find(", line ", file), in = trace.find(", in ", file);
    if (end == trace.npos || line == trace.npos || in == trace.npos) continue;
    const std::string path = trace.substr(file, end - file);
    // torch's own, and lines of graphs that it has made of the user's functions.
    const bool others = path.find("torch/nn/") != path.npos || path.starts_with('<');
    if (!found.empty() && others) continue;
    const std::size_t number = line + 7;
    found = fmt::format("{}:{} in {}", path.substr(path.rfind('/') + 1),
                        trace.substr(number, trace.find(',', number) - number),
                        trace.substr(in + 5, trace.find('\n', in) - in - 5));
  }
  return found;
}

/// "aten.add.Tensor" of "torch.ops.aten.add.Tensor".
std::string without_prefix(std::string target) {
  for (const std::string_view prefix : {"torch.ops.", "torch._ops."}) {
    if (target.starts_with(prefix)) target.erase(0, prefix.size());
  }
  return target;
}

/// An op that runs graphs. Its arguments have no names in the file; "" is a graph.
struct ControlOp {
  std::string_view target;
  std::vector<std::string_view> arguments;
};
const std::array kControls = {
    ControlOp{"higher_order.cond", {"predicate", "", "", "operands"}},
    ControlOp{"higher_order.while_loop", {"", "", "carried", "operands"}},
    ControlOp{"higher_order.scan", {"", "carried", "sequences", "operands"}},
};

/// A graph on its way into the program: how its values are called there.
class GraphReader {
 public:
  GraphReader(ExportedProgram& program, std::string prefix,
              std::map<std::string, std::string> operands, bool no_grad)
      : program_(program),
        prefix_(std::move(prefix)),
        names_(std::move(operands)),
        no_grad_(no_grad) {}

  void read(const Json& graph) {
    for (const auto& [name, meta] : member(graph, "tensor_values", "the graph").items()) {
      if (names_.contains(name)) continue;  // an operand of the region
      names_[name] = prefix_ + name;
      try {
        read_type(name, meta);
      } catch (const ImportRefusal& refusal) {
        refuse(refusal.reason + maker_of(graph, name));
      }
    }
    for (const Json& input : list_in(graph, "inputs", "the graph")) {
      if (const std::string name = tensor_name(input, "an input"); !name.empty())
        made_.insert(name);
    }
    for (const Json& node : list_in(graph, "nodes", "the graph")) add(node);
  }

  std::string name_of(const std::string& name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) refuse(fmt::format("a node names \"{}\", which has no type", name));
    return found->second;
  }

 private:
  void read_type(const std::string& name, const Json& meta) {
    const std::string what = fmt::format("\"{}\"", name);
    const Type type = type_of(meta, what);
    if (!lies_in_order(meta, type, what)) program_.strided.insert(prefix_ + name);
    program_.types[prefix_ + name] = type;
  }

  /// " (aten.masked_select.default, net.py:9 in forward)" of the node that makes a value; "" for
  /// none.
  static std::string maker_of(const Json& graph, const std::string& name) {
    for (const Json& node : list_in(graph, "nodes", "the graph")) {
      if (!node.contains("outputs") ||
          node["outputs"].dump().find('"' + name + '"') == std::string::npos)
        continue;
      return fmt::format(" ({}, {})", without_prefix(string_in(node, "target", "a node")),
                         where_of(node));
    }
    return "";
  }

  /// The name of a node's output, which nobody has made before.
  std::string new_name(const Json& output, const std::string& what) {
    const std::string name = string_in(output, "name", what);
    if (!made_.insert(name).second) refuse(fmt::format("\"{}\" is made twice", name));
    return name_of(name);
  }

  void add(const Json& json) {
    ExportedNode node;
    const std::string what = fmt::format("node {}", program_.nodes.size());
    node.target = without_prefix(string_in(json, "target", what));
    node.where = where_of(json);
    node.no_grad = no_grad_;
    const Json& inputs = list_in(json, "inputs", what);
    for (const Json& output : list_in(json, "outputs", what)) {
      const auto [kind, value] = only_member(output, "an output of " + what);
      if (kind == "as_tensors") {
        for (const Json& one : *value) node.outputs.push_back(new_name(one, what));
      } else {
        node.outputs.push_back(kind == "as_tensor" ? new_name(*value, what) : "");
      }
    }
    if (inline_region(node, inputs, what) || keep_regions(node, inputs, what)) return;
    for (const Json& input : inputs) {
      Json& argument = node.arguments[string_in(input, "name", what)];
      argument = member(input, "arg", what);
      rename(argument);
    }
    program_.nodes.push_back(std::move(node));
  }

  /// Whether the node is a region that can be, and now is, part of the graph around it.
  bool inline_region(const ExportedNode& node, const Json& inputs, const std::string& what) {
    const bool no_grad = node.target == "higher_order.wrap_with_set_grad_enabled";
    const bool autocast = node.target == "higher_order.wrap_with_autocast";
    if (!no_grad && !autocast) return false;
    const std::size_t flag = no_grad ? 0 : 2, body = no_grad ? 1 : 4;
    if (inputs.size() <= body) refuse(fmt::format("{} has too few arguments", what));
    const auto argument = [&](std::size_t i) {
      return only_member(member(inputs[i], "arg", what), what);
    };
    const bool enabled = argument(flag).second->get<bool>();
    if (autocast && enabled) return false;
    const Json& region = *argument(body).second;
    const Json& graph = member(region, "graph", what);
    const Json& taken = list_in(graph, "inputs", what);
    if (taken.size() != inputs.size() - body - 1) {
      refuse(fmt::format("{} gives its region {} operands, and not {}", what,
                         inputs.size() - body - 1, taken.size()));
    }
    std::map<std::string, std::string> operands;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const std::string outer = tensor_name(member(inputs[body + 1 + i], "arg", what), what);
      operands[tensor_name(taken[i], what)] = name_of(outer);
    }
    GraphReader inner(program_, fmt::format("{}{}.", prefix_, string_in(region, "name", what)),
                      std::move(operands), no_grad ? !enabled : no_grad_);
    inner.read(graph);
    const Json& given = list_in(graph, "outputs", what);
    for (std::size_t i = 0; i < given.size() && i < node.outputs.size(); ++i) {
      const std::string value = inner.name_of(tensor_name(given[i], what));
      program_.nodes.push_back(
          {.target = no_grad && !enabled ? "aten.detach.default" : "aten.alias.default",
           .arguments = {{"self", Json{{"as_tensor", {{"name", value}}}}}},
           .outputs = {node.outputs[i]},
           .where = node.where});
    }
    return true;
  }

  /// Whether the node runs graphs that stay graphs: then it, and their nodes, are now part of the
  /// program.
  bool keep_regions(const ExportedNode& node, const Json& inputs, const std::string& what) {
    const auto control = std::ranges::find(kControls, node.target, &ControlOp::target);
    if (control == kControls.end()) return false;
    if (inputs.size() != control->arguments.size()) {
      refuse(fmt::format("{}, {}, has {} arguments, and not {}", what, node.target, inputs.size(),
                         control->arguments.size()));
    }
    const std::size_t at = program_.nodes.size();
    program_.nodes.push_back(node);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Json& argument = member(inputs[i], "arg", what);
      const std::string name(control->arguments[i]);
      const auto [kind, value] = only_member(argument, what);
      if (!name.empty()) {
        Json& kept = program_.nodes[at].arguments[name];
        kept = argument;
        rename(kept);
        continue;
      }
      if (kind != "as_graph") refuse(fmt::format("argument {} of {} is no graph", i, what));
      ExportedRegion region = kept_region(*value, what);
      program_.nodes[at].regions.push_back(std::move(region));
    }
    return true;
  }

  ExportedRegion kept_region(const Json& region, const std::string& what) {
    const Json& graph = member(region, "graph", what);
    ExportedRegion kept{.prefix = fmt::format("{}{}.", prefix_, string_in(region, "name", what))};
    if (!program_.prefixes.insert(kept.prefix).second) {
      refuse(fmt::format("two graphs are called \"{}\"", string_in(region, "name", what)));
    }
    kept.begin = program_.nodes.size();
    GraphReader inner(program_, kept.prefix, {}, no_grad_);
    inner.read(graph);
    kept.end = program_.nodes.size();
    const auto named = [&](const Json& each) {
      const std::string name = tensor_name(each, what);
      if (name.empty()) refuse(fmt::format("a graph of {} takes or gives what is no tensor", what));
      return inner.name_of(name);
    };
    for (const Json& each : list_in(graph, "inputs", what)) kept.inputs.push_back(named(each));
    for (const Json& each : list_in(graph, "outputs", what)) kept.outputs.push_back(named(each));
    return kept;
  }

  void rename(Json& argument) const {
    if (argument.is_object() && argument.contains("name") && argument["name"].is_string() &&
        !argument.contains("graph")) {
      const auto found = names_.find(argument["name"].get<std::string>());
      if (found != names_.end()) argument["name"] = found->second;
      return;
    }
    if (!argument.is_structured()) return;
    for (Json& part : argument) rename(part);
  }

  ExportedProgram& program_;
  std::string prefix_;
  std::map<std::string, std::string> names_;  ///< in the program, by the graph's own
  std::set<std::string> made_;                ///< by the graph's own names
  bool no_grad_;
};

}  // namespace

void read_nodes(const Json& graph, ExportedProgram& program) {
  GraphReader(program, "", {}, false).read(graph);
}

}  // namespace metronome::pt2
