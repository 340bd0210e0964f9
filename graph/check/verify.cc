#include "graph/check/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "graph/control/regions.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/rules/alias.h"

namespace metronome::check {
namespace {

/// Returns the mistake in the nodes that a node waits for; empty if there is none.
std::string_view wrong_waits(const Node& node, std::int32_t index, const Types& types) {
  const std::vector<std::int32_t>& waits = node.waits_for;
  if (waits.empty()) return {};
  if (waits.front() < 0 || waits.back() >= index) return "waits for a node that is not earlier";
  if (std::ranges::adjacent_find(waits, std::ranges::greater_equal()) != waits.end()) {
    return "waits for nodes that do not ascend";
  }
  const bool still = node.op->as<Input>() != nullptr || node.op->as<Read>() != nullptr;
  return still || node.op->ask<AliasRule>(types) ? "waits, but has no kernel" : std::string_view();
}

}  // namespace

void verify(const ir::Graph& graph, std::string_view pass) {
  const auto fail = [&](const std::string& what) {
    throw InternalError(fmt::format("after pass {}: {}", pass, what));
  };
  const control::Regions guards(graph.nodes());
  const auto always = [&](ValueId id, std::string_view what, const std::string& name) {
    if (graph.node(id).guard.present()) {
      fail(fmt::format("the {} \"{}\" is not computed in every step", what, name));
    }
  };
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  const auto exists = [&](ValueId id, std::int32_t before) {
    return id.node >= 0 && id.node < before && id.output >= 0 &&
           id.output < static_cast<std::int32_t>(graph.node(id).types.size());
  };
  Types types;  // of a node's inputs; kept, as their shapes have memory
  for (std::int32_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    types.resize(node.inputs.size());
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!exists(node.inputs[k], i))
        fail(fmt::format("\"{}\" reads a value that is not earlier", node.path));
      types[k] = graph.type(node.inputs[k]);
    }
    if (node.guard.present()) {
      if (!exists(node.guard, i))
        fail(fmt::format("the guard of \"{}\" is not earlier", node.path));
      if (graph.type(node.guard) != Type{bool_, {}}) {
        fail(
            fmt::format("the guard of \"{}\" is {}", node.path, to_string(graph.type(node.guard))));
      }
      if (graph.node(node.guard).guard.present()) {
        fail(fmt::format("the guard of \"{}\" is not computed in every step", node.path));
      }
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId guard = graph.node(node.inputs[k]).guard;
      if (guard == node.guard || !guard.present()) continue;
      if (!guards.implies(control::read_under(node, k), guard)) {
        fail(fmt::format("\"{}\" reads \"{}\" where \"{}\" may be false", node.path,
                         graph.node(node.inputs[k]).path, graph.node(guard).path));
      }
    }
    if (const Merge* merge = node.op->as<Merge>()) {
      for (int a = 0; a < merge->branches; ++a) {
        for (int b = 0; b < a; ++b) {
          if (!guards.exclude(node.inputs[2 * a], node.inputs[2 * b])) {
            fail(fmt::format("\"{}\" merges branches that can both run", node.path));
          }
        }
      }
    }
    Types inferred;
    try {
      inferred = node.op->infer(types);
    } catch (const Requirement& requirement) {
      fail(fmt::format("{} \"{}\" requires {}", node.op->name(), node.path, requirement.requires_));
    }
    if (inferred != node.types)
      fail(fmt::format("the types of \"{}\" are not its rule's", node.path));
    if (const std::string_view wrong = wrong_waits(node, i, types); !wrong.empty()) {
      fail(fmt::format("\"{}\" {}", node.path, wrong));
    }
    if (const Read* read = node.op->as<Read>()) {
      if (read->storage.index < 0 ||
          read->storage.index >= static_cast<std::int32_t>(graph.storages().size())) {
        fail(fmt::format("\"{}\" reads a storage that does not exist", node.path));
      }
    }
  }
  std::set<StorageId> assigned;
  for (const Assignment& a : graph.assignments()) {
    const std::string& path = graph.storage(a.storage).path;
    if (!exists(a.value, count))
      fail(fmt::format("\"{}\" is assigned a value that does not exist", path));
    always(a.value, "value assigned to", path);
    if (!assigned.insert(a.storage).second) fail(fmt::format("\"{}\" is assigned twice", path));
    if (graph.type(a.value) != graph.storage(a.storage).stored_type()) {
      fail(fmt::format("\"{}\" of type {} is assigned {}", path,
                       to_string(graph.storage(a.storage).stored_type()),
                       to_string(graph.type(a.value))));
    }
  }
  for (const Readable& r : graph.readables()) {
    if (r.value.present() && !exists(r.value, count)) {
      fail(fmt::format("the readable \"{}\" does not exist", r.name));
    }
    if (r.value.present()) always(r.value, "readable", r.name);
  }
}

}  // namespace metronome::check
