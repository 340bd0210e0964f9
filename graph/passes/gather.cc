// A sum is a tree of `Accumulate`. The pass takes it apart at its end, the one that no other sum
// takes in, and writes it anew there:
//
//   s1 = w1 + w2    added      w1 w2 b w3; s1 and s2 are inner, as only the next sum reads them
//   s2 = s1 + b     parts_of   {w1 w2 w3}, which gather with each other, and {b}
//   s3 = s2 + w3    gathered   w, one node over stacked operands, or absent: then w1 w2 w3
//                   becomes    s3 = w + b
//
// An addend is a part of its own if something else reads it, if a guard may skip it, if it or one
// of its operands waits, or if its op has no `GatherRule`. If no part becomes one node, the
// sum stays as it is. Old addends and inner sums are copied all the same, for `prune` to drop.
#include "graph/passes/gather.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/emit/scope.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"
#include "graph/passes/walk/results.h"
#include "graph/rules/alias.h"
#include "graph/rules/gather.h"

namespace metronome::passes {
namespace {

/// Addends of one sum, results of ops that gather with each other, in the order of the values.
using SumPart = std::vector<ValueId>;

bool unconditional(const Node& node) { return !node.guard.present() && node.waits_for.empty(); }

bool adds(const Node& node) { return node.op->as<Accumulate>() != nullptr && unconditional(node); }

class Sums {
 public:
  explicit Sums(const ir::Graph& graph) : graph_(graph), uses_(uses_of_nodes(graph)) {
    std::vector<bool> inner(graph.nodes().size());
    for (const Node& node : graph.nodes()) {
      if (!adds(node)) continue;
      for (const ValueId input : node.inputs) inner[input.node] = inner[input.node] || joins(input);
    }
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
      if (!adds(graph.nodes()[i]) || inner[i]) continue;
      std::vector<SumPart> parts = parts_of(addends_of(i));
      const auto many = [](const SumPart& part) { return part.size() > 1; };
      if (std::ranges::any_of(parts, many)) sums_.emplace(i, std::move(parts));
    }
  }

  bool none() const { return sums_.empty(); }
  /// The parts of the sum that ends at the node; null where it is none, or nothing can be gathered.
  const std::vector<SumPart>* find(std::int32_t node) const {
    const auto found = sums_.find(node);
    return found == sums_.end() ? nullptr : &found->second;
  }

 private:
  /// True for a sum that nothing but the sum that reads it asks for.
  bool joins(ValueId id) const { return uses_[id.node] == 1 && adds(graph_.node(id)); }

  /// All that a sum adds, in the order in which it is made.
  std::vector<ValueId> addends_of(std::int32_t sum) const {
    std::vector<ValueId> all, open = graph_.nodes()[sum].inputs;
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (joins(id)) {
        const std::vector<ValueId>& more = graph_.node(id).inputs;
        open.insert(open.end(), more.begin(), more.end());
      } else {
        all.push_back(id);
      }
    }
    std::ranges::sort(all);
    return all;
  }

  /// True for what waits, and for views of it.
  bool waits(ValueId id) const {
    const Node& node = graph_.node(id);
    const std::optional<Alias> view = graph_.alias(node);
    if (view && view->output == id.output) return waits(node.inputs[view->input]);
    return !node.waits_for.empty();
  }

  /// Whether a sum may have another node in its place.
  bool gives_way(ValueId id) const {
    const Node& made = graph_.node(id);
    return uses_[id.node] == 1 && unconditional(made) && made.types.size() == 1 &&
           std::ranges::none_of(made.inputs, [&](ValueId input) { return waits(input); });
  }

  std::vector<SumPart> parts_of(const std::vector<ValueId>& added) const {
    std::vector<SumPart> parts, others;
    for (const ValueId id : added) {
      const Op& op = *graph_.node(id).op;
      if (!gives_way(id) || !gather_together(op, op)) {
        others.push_back({id});
        continue;
      }
      const auto with = std::ranges::find_if(parts, [&](const SumPart& part) {
        return gather_together(*graph_.node(part[0]).op, op);
      });
      if (with == parts.end()) {
        parts.push_back({id});
      } else {
        with->push_back(id);
      }
    }
    parts.insert(parts.end(), others.begin(), others.end());
    return parts;
  }

  const ir::Graph& graph_;
  std::vector<int> uses_;
  std::unordered_map<std::int32_t, std::vector<SumPart>> sums_;
};

/// The part as one node; absent where it is a single one, or the op's rule has none for it.
Value gather_part(const SumPart& part, Copier& copier) {
  if (part.size() < 2) return {};
  std::vector<Values> inputs;
  for (const ValueId id : part) inputs.push_back(copier.inputs_of(copier.from.node(id)));
  std::vector<Addend> addends;
  for (std::size_t i = 0; i < part.size(); ++i) {
    addends.push_back({copier.from.node(part[i]).op.get(), inputs[i]});
  }
  const Node& first = copier.from.node(part[0]);
  PassScope scope(copier.emitter, first.path, first.line);
  return first.op->ask<GatherRule>(addends);
}

/// Returns the values to add in place of the parts; nothing if no part becomes one node.
Values gather_part(const std::vector<SumPart>& parts, Copier& copier) {
  Values added;
  bool any = false;
  for (const SumPart& part : parts) {
    const Value whole = gather_part(part, copier);
    any = any || whole.present();
    if (whole.present()) {
      added.push_back(whole);
    } else {
      for (const ValueId id : part) added.push_back(copier.emitter.value(copier.at(id)));
    }
  }
  return any ? added : Values{};
}

}  // namespace

ir::Graph gather(ir::Graph graph, const Settings& settings) {
  if (!settings.gathers) return graph;
  const Sums sums(graph);
  if (sums.none()) return graph;
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const std::vector<SumPart>* parts = sums.find(i);
    const Values added = parts == nullptr ? Values{} : gather_part(*parts, copier);
    if (added.empty()) {
      copier.copy(i);
      continue;
    }
    const Node& node = graph.nodes()[i];
    PassScope scope(copier.emitter, node.path, node.line);
    Value sum = added[0];
    for (std::size_t k = 1; k < added.size(); ++k) {
      sum = apply(Accumulate{}, {sum, added[k]}, Line{});
    }
    copier.replace(i, Values{sum});
  }
  return copier.finish();
}

}  // namespace metronome::passes
