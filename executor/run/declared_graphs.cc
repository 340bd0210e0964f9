// The tables are filled once, by the constructor. Names of inputs and readables are numbered over
// all graphs, averages over all plans:
//
//   a value  -> its graph, by identity -> `input_at` by its node   -> number -> place in `Memory`
//   a name   -> `input_named_`, a table of hashes                  -> number -> place in `Memory`
//   a kind   -> `DeclaredGraph::plans`, by mode and average        -> plan
//
// A readable is sought among a graph's few, by its value or its name. A search that finds nothing
// throws an error that lists what there is.
#include "executor/run/declared_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome::executor {
namespace {

std::string of_other(const Value& value) {
  return fmt::format("of another graph, \"{}\"", value.identity()->name);
}

/// The place of a name, which joins the others if it is new.
std::size_t place_of(std::vector<std::string>& names, const std::string& name) {
  const auto place = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  if (place == names.size()) names.push_back(name);
  return place;
}

}  // namespace

std::string list_names(std::span<const std::string> names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(fmt::format("\"{}\"", name));
  return quoted.empty() ? "none" : fmt::format("{}", fmt::join(quoted, ", "));
}

// ---- the tables ---------------------------------------------------------------------------

DeclaredGraphs::DeclaredGraphs(std::span<const Graph* const> graphs, BatchShapes shapes,
                               std::span<const Plan> plans, const Memory& memory)
    : averages_{""}, shapes_(std::move(shapes)) {
  for (const Graph* graph : graphs) graphs_.push_back(keep_graph(*graph));
  for (DeclaredGraph& d : graphs_) d.readables.resize(readables_.size(), kNone);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans_.push_back(interface_of(plans[i]));
    const StepKind kind{plans[i].mode, place_of(averages_, plans[i].average)};
    std::vector<PlanId>& of_graph = graphs_[plans[i].shape].plans;
    of_graph.resize(std::max(of_graph.size(), kind.index() + 1));
    of_graph[kind.index()] = {static_cast<std::int32_t>(i)};
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) input_named_[inputs_[i]] = i;
  for (std::size_t k = 0; k < graphs_.size(); ++k) {
    graphs_[k].plans.resize(kinds());
    graphs_[k].inputs.assign(inputs_.size(), kNone);
    for (const std::size_t index : memory.inputs_of[k]) {
      graphs_[k].inputs[input_named_.at(memory.inputs[index].name)] = index;
    }
  }
}

bool DeclaredGraphs::draw() const {
  return std::ranges::any_of(graphs_, [](const DeclaredGraph& declared) {
    return declared.graph.find_read(declared.graph.counters().seed).has_value();
  });
}

/// A graph as the executable keeps it; the names of its inputs and readables join the others.
DeclaredGraph DeclaredGraphs::keep_graph(const Graph& declared) {
  const ir::Graph& graph = declared.data();
  DeclaredGraph result{graph, declared.identity(), {}, {}, {}, {}};
  result.input_at.resize(graph.nodes().size(), -1);
  for (const DeclaredInput& input : inputs_of(graph)) {
    result.input_at[input.value.node] = static_cast<std::int32_t>(place_of(inputs_, input.name));
  }
  for (std::size_t i = 0; i < graph.readables().size(); ++i) {
    const std::size_t place = place_of(readables_, graph.readables()[i].name);
    result.readables.resize(readables_.size(), kNone);
    result.readables[place] = i;
  }
  return result;
}

/// Returns the inputs that a plan reads and the readables that it computes.
PlanInterface DeclaredGraphs::interface_of(const Plan& plan) const {
  PlanInterface result{plan.mode, plan.shape, {}, {}};
  for (const std::string& name : inputs_) {
    result.inputs.push_back(std::ranges::any_of(plan.graph.nodes(), [&](const Node& n) {
      const Input* i = n.op->as<Input>();
      return i != nullptr && i->input == name;
    }));
  }
  for (const std::size_t readable : graphs_[plan.shape].readables) {
    result.readables.push_back(readable != kNone &&
                               plan.graph.readables()[readable].value.present());
  }
  return result;
}

// ---- names and values ---------------------------------------------------------------------

std::string DeclaredGraphs::prefix() const { return fmt::format("graph \"{}\"", first().name()); }

std::string DeclaredGraphs::input_names() const { return list_names(inputs_); }
std::string DeclaredGraphs::readable_names() const { return list_names(readables_); }

InputPlace DeclaredGraphs::input_of(const Value& value) const {
  for (std::size_t k = 0; value.id().present() && k < graphs_.size(); ++k) {
    if (value.identity() != graphs_[k].declared_by) continue;
    const auto node = static_cast<std::size_t>(value.id().node);
    const std::vector<std::int32_t>& input_at = graphs_[k].input_at;
    // The user's graph may have grown since.
    if (node < input_at.size() && input_at[node] >= 0) {
      return {k, static_cast<std::size_t>(input_at[node])};
    }
  }
  throw RunError(fmt::format("{}: the value that is fed is {}, which are {}", prefix(),
                             !value.present() ? "absent, not an input"
                             : is_own(value)  ? "not one of its inputs"
                                              : of_other(value) + ", not one of its inputs",
                             input_names()));
}

std::size_t DeclaredGraphs::input_of(std::string_view name) const {
  const auto found = input_named_.find(name);
  if (found != input_named_.end()) return found->second;
  throw RunError(
      fmt::format("{} has no input \"{}\"; its inputs are {}", prefix(), name, input_names()));
}

std::size_t DeclaredGraphs::readable_of(const Value& value) const {
  for (const DeclaredGraph& d : graphs_) {
    if (value.identity() != d.declared_by || !value.id().present()) continue;
    for (std::size_t i = 0; i < d.readables.size(); ++i) {
      if (d.readables[i] == kNone) continue;
      if (d.graph.readables()[d.readables[i]].declared == value.id()) return i;
    }
    if (static_cast<std::size_t>(value.id().node) >= d.graph.nodes().size()) {
      throw RunError(
          fmt::format("{}: the value that is read was declared after the graph was compiled; kept "
                      "are {}",
                      prefix(), readable_names()));
    }
    throw RunError(
        fmt::format("{}: \"{}\" is not kept after a step; declare it with Graph::output or "
                    "Value::named. Kept are {}",
                    prefix(), d.graph.node(value.id()).path, readable_names()));
  }
  if (!value.present()) {
    throw RunError(fmt::format("{}: the value that is read is absent{}; kept are {}", prefix(),
                               no_loss(), readable_names()));
  }
  throw RunError(fmt::format("{}: the value that is read is {}; kept are {}", prefix(),
                             is_own(value) ? "not one of its values" : of_other(value),
                             readable_names()));
}

std::size_t DeclaredGraphs::readable_of(std::string_view name) const {
  for (std::size_t i = 0; i < readables_.size(); ++i) {
    if (readables_[i] == name) return i;
  }
  throw RunError(fmt::format("{} keeps no value \"{}\"{}; it keeps {}", prefix(), name,
                             name == "loss" ? no_loss() : "", readable_names()));
}

std::string_view DeclaredGraphs::no_loss() const {
  const bool any = std::ranges::any_of(
      graphs_, [](const DeclaredGraph& d) { return !d.graph.objectives().empty(); });
  return any ? "" : " (without Graph::minimize there is no loss)";
}

bool DeclaredGraphs::is_of_training(std::size_t readable) const {
  return std::ranges::any_of(graphs_, [&](const DeclaredGraph& d) {
    if (d.readables[readable] == kNone) return false;
    const ValueId id = d.graph.readables()[d.readables[readable]].declared;
    return static_cast<bool>(ir::made_by_training(d.graph)[id.node]);
  });
}

std::size_t DeclaredGraphs::average_of(std::string_view name) const {
  const auto found = std::ranges::find(averages_, name);
  if (found != averages_.end()) return static_cast<std::size_t>(found - averages_.begin());
  const std::span kept = std::span(averages_).subspan(1);
  throw RunError(fmt::format("{} has no averages \"{}\" to evaluate with; it has {}{}", prefix(),
                             name, list_names(kept),
                             kept.empty() ? ": declare some with Graph::average" : ""));
}

bool DeclaredGraphs::is_own(const Value& value) const {
  return std::ranges::any_of(
      graphs_, [&](const DeclaredGraph& d) { return value.identity() == d.declared_by; });
}

// ---- choices ------------------------------------------------------------------------------

bool DeclaredGraphs::may_be(const GraphChoice& choice, std::size_t k) const {
  if (!choice.given) return true;
  if (choice.identity != nullptr) return graphs_[k].declared_by == choice.identity;
  return graphs_[k].graph.name() == choice.name;
}

bool DeclaredGraphs::may_run(StepKind kind, const GraphChoice& choice, std::size_t k) const {
  return graphs_[k].plan(kind).present() && may_be(choice, k);
}

std::vector<std::size_t> DeclaredGraphs::graphs_compiled_to(StepKind kind,
                                                            const GraphChoice& choice) const {
  std::vector<std::size_t> graphs;
  for (std::size_t k = 0; k < graphs_.size(); ++k) {
    if (may_run(kind, choice, k)) graphs.push_back(k);
  }
  return graphs;
}

void DeclaredGraphs::require_compiled(StepKind kind) const {
  const auto compiled = [&](const DeclaredGraph& d) { return d.plan(kind).present(); };
  if (std::ranges::any_of(graphs_, compiled)) return;
  throw RunError(fmt::format("{} was not compiled to {}; add mt::{} to CompileOptions::modes",
                             prefix(), name_of(kind.mode), name_of(kind.mode)));
}

void DeclaredGraphs::require_choice(StepKind kind, const GraphChoice& choice) const {
  if (!choice.given) return;
  const auto listed = [&](const GraphChoice& among, bool of_kind) {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < graphs_.size(); ++k) {
      if (!may_be(among, k) || (of_kind && !graphs_[k].plan(kind).present())) continue;
      std::string name = fmt::format("\"{}\"", graphs_[k].graph.name());
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  };
  if (choice.identity == nullptr && choice.name.data() == nullptr) {
    throw RunError(
        fmt::format("{}: the value that is to choose the graph is absent; compiled are {}",
                    prefix(), listed({}, false)));
  }
  const std::string name =
      choice.identity != nullptr ? choice.identity->name : std::string(choice.name);
  const std::string found = listed(choice, false);
  if (found.empty()) {
    throw RunError(fmt::format("{}: graph \"{}\" is chosen, but compiled are {}", prefix(), name,
                               listed({}, false)));
  }
  if (!listed(choice, true).empty()) return;
  const std::string with = averages_[kind.average];
  throw RunError(fmt::format(
      "{}: graph {} is chosen, but compiled to {}{} are {}", prefix(), found, name_of(kind.mode),
      with.empty() ? "" : fmt::format(" with \"{}\"", with), listed({}, true)));
}

}  // namespace metronome::executor
