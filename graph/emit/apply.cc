// Adding one node to a graph under construction.
#include <fmt/format.h>

#include "graph/control/regions.h"
#include "graph/emit/emitter.h"
#include "graph/emit/hash.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/rules/alias.h"
#include "graph/rules/random_key.h"

namespace metronome {
namespace {

/// The path a new node takes; `take` is false for a node that fails to join.
std::string node_path(Scope& scope, const Op& op, bool take) {
  if (!scope.layer.empty() && scope.layer == op.name()) {
    if (take) scope.layer.clear();
    return scope.nodes;
  }
  if (take) return join_path(scope.nodes, unique_name(scope, op.name()));
  Scope copy = scope;
  return join_path(copy.nodes, unique_name(copy, op.name()));
}

/// The requirement on operand `i`, which is computed less often than it is read.
Requirement needs_computed(const Value& value, std::size_t i) {
  return {
      fmt::format("operands that are computed whenever they are read, but operand {} only where "
                  "\"{}\" is true",
                  i, Value(value.emitter(), value.node().guard).node().path),
      "carry it in the stream of its loop or branch"};
}

}  // namespace

bool always_computed(const Value& value) {
  return !value.present() || value.poisoned() || !value.node().guard.present();
}

Requirement needs_always(const Value& value) {
  return {fmt::format("a value that every step computes, but this one only where \"{}\" is true",
                      Value(value.emitter(), value.node().guard).node().path),
          "carry it in the stream of its loop or branch"};
}

std::optional<Requirement> unless_forward(const Value& value) {
  if (!value.present() || value.poisoned()) return std::nullopt;
  if (!value.emitter()->made_by_training(value.id())) return std::nullopt;
  const Op& op = *value.node().op;
  const std::string_view what = op.as<GradientOf>() != nullptr    ? "a gradient"
                                : op.as<OfUpdate>() != nullptr    ? "a number of the update"
                                : op.as<AfterUpdate>() != nullptr ? "what a storage holds later"
                                                                  : "this, made of gradients or "
                                                                    "of the update,";
  return Requirement{
      fmt::format("what is computed in the forward pass, but {} comes after it", what)};
}

Value make_guard(Value decider, std::int64_t when, std::int64_t cases, Value parent, Line line) {
  const Guard guard{when, cases, parent.present()};
  return parent.present() ? apply(guard, {decider, parent}, line) : apply(guard, {decider}, line);
}

void refuse_without_graph(std::string_view name, Line line) {
  throw GraphError(
      {fmt::format("{}: {} has no operand that belongs to a graph\n"
                   "  way out    begin with Graph::input or Graph::parameter",
                   to_string(line), name)});
}

Values apply(OpPtr op, std::span<const Value> inputs, Line line, std::size_t outputs) {
  Emitter* emitter = nullptr;
  bool poisoned = false;
  for (const Value& v : inputs) {
    Emitter* const own = v.emitter(line);
    if (emitter == nullptr) emitter = own;
    poisoned = poisoned || (v.poisoned() && own == emitter);
  }
  if (emitter == nullptr) refuse_without_graph(op->name(), line);
  if (poisoned) return Values(outputs, Value(emitter, ValueId{}));

  Scope& scope = emitter->scopes.back();
  const auto refuse = [&](const Requirement& requirement) {
    mistake(
        emitter, line,
        fmt::format("{} cannot join the graph as \"{}\"", op->name(), node_path(scope, *op, false)),
        inputs, requirement);
    return Values(outputs, Value(emitter, ValueId{}));
  };

  // Nodes that decide, or that ranks run together, are made in the forward pass.
  const bool forward = op->as<Guard>() != nullptr || op->as<Merge>() != nullptr ||
                       op->as<GradientOf>() != nullptr || op->effects() || emitter->guard.present();
  bool by_training = stands_for_training(*op);
  Node node;
  Types types;
  node.inputs.reserve(inputs.size());
  types.reserve(inputs.size());
  for (const Value& v : inputs) {
    if (!v.present()) return refuse({"every operand, but one is absent (a default-made Value)"});
    if (v.emitter() != emitter) {
      return refuse({fmt::format("operands of one graph, but of \"{}\" and \"{}\"",
                                 emitter->graph.name(), v.emitter()->graph.name())});
    }
    if (const auto late = unless_forward(v)) {
      if (forward) return refuse(*late);
      by_training = true;
    }
    node.inputs.push_back(v.id());
    types.push_back(v.type());
  }
  node.op = op;
  if (op->as<Guard>() == nullptr) node.guard = emitter->guard;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueId guard = inputs[i].node().guard;
    if (guard == node.guard || !guard.present()) continue;
    if (!emitter->regions.implies(control::read_under(node, i), guard)) {
      return refuse(needs_computed(inputs[i], i));
    }
  }
  try {
    node.types = op->infer(types);
  } catch (const Requirement& requirement) {
    return refuse(requirement);
  }
  try {
    for (const Type& type : node.types) require_possible(type);
  } catch (const Requirement& requirement) {
    const Values poisoned = refuse(requirement);
    // A pass cannot do without it: a gradient may be larger than all that was declared.
    if (scope.pass) throw GraphError({emitter->mistakes.back()});
    return poisoned;
  }
  node.path = node_path(scope, *op, true);
  node.line = emitter->effective_line(line);
  if (!emitter->waits_for.empty() && !op->ask<AliasRule>(types))
    node.waits_for = emitter->waits_for;
  if (OpPtr keyed = op->ask<WithKeyRule>(hash_of(node.path))) op = std::move(keyed);
  node.op = std::move(op);

  const auto index = static_cast<std::int32_t>(emitter->graph.nodes().size());
  Values results;
  results.reserve(node.types.size());
  for (std::size_t i = 0; i < node.types.size(); ++i) {
    results.emplace_back(emitter, ValueId{index, static_cast<std::int32_t>(i)});
  }
  const ValueId made = emitter->graph.append_typed(std::move(node));
  if (by_training) emitter->note_training(made);
  return results;
}

}  // namespace metronome
