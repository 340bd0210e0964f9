// One walk over the order, each node behind the clones that run before it. A node that does not run
// (an input, a storage's value, a view) is copied when it is first asked for. Late nodes and clones
// ask for late values: of a dropped value its clone, of a view of one a view of the clone.
#include "graph/passes/compute_again.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/ir/error.h"
#include "graph/passes/walk/copier.h"
#include "graph/rules/alias.h"

namespace metronome::passes {
namespace {

class CloneWriter {
 public:
  CloneWriter(const ir::Graph& graph, const plan::Recomputation& planned)
      : graph_(graph),
        planned_(planned),
        place_of_(graph.nodes().size(), -1),
        copied_(graph.nodes().size()),
        copier_(graph) {
    for (std::size_t p = 0; p < planned.order.size(); ++p) {
      place_of_[planned.order[p]] = static_cast<std::int32_t>(p);
    }
  }

  GraphWithClones run() {
    auto clone = planned_.clones.begin();
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(planned_.order.size()); ++p) {
      for (; clone != planned_.clones.end() && clone->before == p; ++clone) append_clone(*clone);
      append(planned_.order[p], p >= planned_.split);
    }
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph_.nodes().size()); ++n) {
      copy_still(n);
    }
    return {copier_.finish(), std::move(origins_)};
  }

 private:
  const Node& node(std::int32_t index) const { return graph_.nodes()[index]; }
  bool runs(std::int32_t index) const { return place_of_[index] >= 0; }

  void note_origin(std::int32_t index) {
    origins_.resize(copier_.to.nodes().size(), -1);
    origins_.back() = index;
  }

  /// A node that does not run, and what it views.
  void copy_still(std::int32_t index) {
    if (copied_[index] || runs(index)) return;
    Node copy = node(index);
    for (ValueId& input : copy.inputs) input = early_value(input);
    // A view may be asked for before its guard is there: where the viewed value is, it is, too.
    if (copier_.has(copy.guard)) {
      copy.guard = copier_.at(copy.guard);
    } else if (copy.guard.present()) {
      copy.guard = copier_.to.node(copy.inputs[0]).guard;
    }
    put(index, std::move(copy));
  }
  ValueId early_value(ValueId value) {
    copy_still(value.node);
    return copier_.at(value);
  }
  /// Appends a node in the place of itself.
  void put(std::int32_t index, Node copy) {
    const std::int32_t made = copier_.to.append_typed(std::move(copy)).node;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node(index).types.size()); ++k) {
      copier_.replace(ValueId{index, k}, {made, k});
    }
    copied_[index] = true;
    note_origin(index);
  }

  bool is_dropped(ValueId value) const {
    return std::ranges::binary_search(planned_.dropped, value);
  }
  /// Whether the value is a dropped one, or a view of one.
  bool has_clone(ValueId value) const {
    while (!runs(value.node)) {
      const auto alias = graph_.alias(node(value.node));
      if (!alias) return false;
      value = node(value.node).inputs[alias->input];
    }
    return is_dropped(value);
  }
  ValueId late_value(ValueId value) {
    if (!value.present() || !has_clone(value)) {
      return value.present() ? early_value(value) : value;
    }
    if (const auto known = clones_.find(value); known != clones_.end()) return known->second;
    if (runs(value.node)) {
      throw InternalError("\"" + node(value.node).path.get() + "\" is dropped, but has no clone");
    }
    copy_still(value.node);
    Node view = copier_.to.node(copier_.at(value));
    for (std::size_t i = 0; i < view.inputs.size(); ++i) {
      view.inputs[i] = late_value(node(value.node).inputs[i]);
    }
    view.path = view.path.get() + ".again";
    keep_clone(value.node, std::move(view));
    return clones_.at(value);
  }
  void keep_clone(std::int32_t index, Node clone) {
    const auto outputs = static_cast<std::int32_t>(clone.types.size());
    const std::int32_t made = copier_.to.append_typed(std::move(clone)).node;
    note_origin(index);
    for (std::int32_t k = 0; k < outputs; ++k) clones_[{index, k}] = {made, k};
  }

  void append(std::int32_t index, bool late) {
    Node copy = node(index);
    for (ValueId& input : copy.inputs) input = late ? late_value(input) : early_value(input);
    copy.guard = copy.guard.present() ? early_value(copy.guard) : ValueId{};
    copy.waits_for = copier_.waits_of(node(index));
    put(index, std::move(copy));
  }

  void append_clone(const plan::Recomputation::Clone& planned) {
    Node clone = node(planned.node);
    for (ValueId& input : clone.inputs) input = late_value(input);
    clone.guard = clone.guard.present() ? early_value(clone.guard) : ValueId{};
    clone.waits_for = copier_.waits_of(node(planned.node));
    for (const std::int32_t waited : waits_before(planned.before)) {
      clone.waits_for.push_back(waited);
    }
    std::ranges::sort(clone.waits_for);
    const auto repeated = std::ranges::unique(clone.waits_for);
    clone.waits_for.erase(repeated.begin(), repeated.end());
    clone.path = clone.path.get() + ".again";
    keep_clone(planned.node, std::move(clone));
  }

  /// Late nodes whose results the node at that place reads; the node before it if it reads none.
  std::vector<std::int32_t> waits_before(std::int32_t place) {
    if (place == waits_of_) return waits_;
    waits_of_ = place;
    waits_.clear();
    const auto wait_for = [&](std::int32_t index) {
      while (!runs(index)) {
        const auto alias = graph_.alias(node(index));
        if (!alias) return;
        index = node(index).inputs[alias->input].node;
      }
      if (place_of_[index] < planned_.split) return;
      waits_.push_back(copier_.at({index, 0}).node);
    };
    for (const ValueId input : node(planned_.order[place]).inputs) wait_for(input.node);
    if (waits_.empty() && place > planned_.split) wait_for(planned_.order[place - 1]);
    if (waits_.empty() && place > 0) {
      waits_.push_back(copier_.at({planned_.order[place - 1], 0}).node);
    }
    return waits_;
  }

  const ir::Graph& graph_;
  const plan::Recomputation& planned_;
  std::vector<std::int32_t> place_of_;  // [node] in the order; -1 of those that do not run
  std::vector<bool> copied_;            // [node]
  Copier copier_;
  std::map<ValueId, ValueId> clones_;  // value -> what late nodes read in its place
  std::vector<std::int32_t> origins_;
  std::int32_t waits_of_ = -1;  // the place that `waits_` is of
  std::vector<std::int32_t> waits_;
};

}  // namespace

GraphWithClones compute_again(const ir::Graph& graph, const plan::Recomputation& planned) {
  return CloneWriter(graph, planned).run();
}

}  // namespace metronome::passes
