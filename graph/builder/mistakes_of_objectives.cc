// Mistakes of objectives that show once all is declared: parameters may be frozen, thawed or made
// to follow others, and losses share parameters, behind the calls of `minimize`.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/builder/objectives.h"
#include "graph/ir/structural.h"
#include "graph/rules/gradient.h"

namespace metronome {
namespace {

/// [node] True for what gradients of the value flow through.
std::vector<bool> reach(const ir::Graph& graph, ValueId from) {
  std::vector<bool> reached(graph.nodes().size());
  reached[from.node] = true;
  for (std::int32_t i = from.node; i >= 0; --i) {
    const Node& node = graph.nodes()[i];
    if (!reached[i] || !differentiable(*node.op)) continue;
    for (const ValueId input : node.inputs) reached[input.node] = true;
  }
  return reached;
}

/// The parameters that an objective is to train, but that its loss does not reach.
std::optional<std::string> missed(const ir::Graph& graph, std::size_t objective,
                                  const MinimizeCall& call) {
  const ir::MinimizedLoss& loss = graph.objectives()[objective];
  const std::vector<bool> reached = reach(graph, loss.loss);
  std::vector<StorageId> unreached;
  bool any = false;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.storages().size()); ++i) {
    const Storage& s = graph.storages()[i];
    if (!s.trainable || s.objective != static_cast<std::int32_t>(objective)) continue;
    const auto read = graph.find_read({i});
    const bool found = read && reached[read->node];
    any = any || found;
    if (!found) unreached.push_back({i});
  }
  if (!any) {
    return fmt::format(
        "{}: minimize has nothing to train\n"
        "  requires   a loss that reaches a trainable parameter\n"
        "  way out    thaw a parameter, or leave minimize out and compile the forward pass alone",
        to_string(loss.line));
  }
  if (call.trains_all || unreached.empty()) return std::nullopt;
  return fmt::format(
      "{}: minimize does not reach {}\n"
      "  requires   a loss that reaches the parameters that it is to train\n"
      "  way out    leave them out of ObjectiveOptions::parameters, or freeze them",
      to_string(loss.line), list_paths(graph, unreached));
}

/// Parameters that two objectives name while they are frozen, and that were thawed behind both.
std::optional<std::string> named_twice(const ir::Graph& graph, std::size_t objective,
                                       std::span<const MinimizeCall> calls) {
  std::vector<StorageId> twice;
  std::size_t first = 0;
  for (const StorageId id : calls[objective].parameters) {
    if (!graph.storage(id).trainable) continue;
    for (std::size_t o = 0; o < objective; ++o) {
      if (std::ranges::find(calls[o].parameters, id) == calls[o].parameters.end()) continue;
      if (twice.empty()) first = o;
      twice.push_back(id);
      break;
    }
  }
  if (twice.empty()) return std::nullopt;
  return fmt::format(
      "{}: minimize names {}, and so does the one at {}\n"
      "  requires   parameters that no other objective trains, or frozen ones\n"
      "  way out    name those of each: {{.parameters = {{\"critic\"}}}}",
      to_string(graph.objectives()[objective].line), list_paths(graph, twice),
      to_string(graph.objectives()[first].line));
}

/// Parameters that an objective names, but that follow others.
std::optional<std::string> named_followers(const ir::Graph& graph, std::size_t objective,
                                           const MinimizeCall& call) {
  if (call.trains_all) return std::nullopt;
  std::vector<StorageId> following;
  for (const StorageId id : call.parameters) {
    if (std::ranges::find(graph.assignments(), id, &Assignment::storage) !=
        graph.assignments().end()) {
      following.push_back(id);
    }
  }
  if (following.empty()) return std::nullopt;
  return fmt::format(
      "{}: minimize names {}, which Graph::follow leaves untrained\n"
      "  requires   parameters that follow no other\n"
      "  way out    leave what follows out of ObjectiveOptions::parameters",
      to_string(graph.objectives()[objective].line), list_paths(graph, following));
}

/// "learning_rate()", if the node stands for a number of the only objective.
std::optional<std::string> call_of_only(const Node& node) {
  const auto* gradient = node.op->as<GradientOf>();
  if (gradient != nullptr && gradient->objective == kOnlyObjective) return "gradient(value)";
  const auto* number = node.op->as<OfUpdate>();
  if (number == nullptr || number->objective != kOnlyObjective) return std::nullopt;
  return fmt::format("{}()", name_of(number->number));
}

}  // namespace

std::string list_paths(const ir::Graph& graph, std::span<const StorageId> parameters) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(parameters.size(), kMost); ++i) {
    text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", graph.storage(parameters[i]).path);
  }
  if (parameters.size() > kMost) text += fmt::format(" and {} more", parameters.size() - kMost);
  return text;
}

std::vector<std::string> mistakes_of_objectives(const ir::Graph& graph,
                                                std::span<const MinimizeCall> calls) {
  std::vector<std::string> mistakes;
  for (std::size_t o = 0; o < calls.size(); ++o) {
    const std::optional<std::string> twice = named_twice(graph, o, calls);
    if (twice) return {*twice};  // the other rules would blame who lost them
  }
  for (std::size_t o = 0; o < calls.size(); ++o) {
    auto mistake = named_followers(graph, o, calls[o]);
    if (!mistake) mistake = missed(graph, o, calls[o]);
    if (mistake) mistakes.push_back(*std::move(mistake));
  }
  // A lone objective over all parameters leaves those of which its loss is not made to the report.
  const bool each_is_owned = calls.size() > 1 || (calls.size() == 1 && !calls[0].trains_all);
  for (const Storage& s : graph.storages()) {
    if (!each_is_owned || s.kind != StorageKind::parameter || !s.trainable || s.objective >= 0) {
      continue;
    }
    mistakes.push_back(
        fmt::format("{}: no objective trains \"{}\"\n"
                    "  requires   each parameter in the set of one objective, or frozen\n"
                    "  way out    name it in ObjectiveOptions::parameters, or freeze it",
                    to_string(s.line), s.path));
  }
  for (const Node& node : graph.nodes()) {
    const std::optional<std::string> call = call_of_only(node);
    if (!call || calls.size() < 2) continue;
    mistakes.push_back(
        fmt::format("{}: {} is of one objective, but the graph has {}\n"
                    "  requires   the objective that is meant\n"
                    "  way out    call it of the Objective that minimize returned",
                    to_string(node.line), *call, calls.size()));
  }
  return mistakes;
}

}  // namespace metronome
