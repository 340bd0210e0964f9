// The constructor finds what to clone; `run` copies the graph and puts the clones in:
//
//   nodes       x    a    b    y   ...  dy    db    da    b reads a, y reads b, db reads dy and a
//   segment_         0    0
//   kept_                 b                               y reads it outside of the segment
//   cloned_          a                                    db reads it, and it is not kept
//   written     x    a    b    y   ...  dy a' db    da    before db, the segment's first reader
//
// `find_cloned` walks from the end, so a clone's own operands are cloned too, until they are kept.
// From the first reader on, the copier answers with clones for what they replace. Only gradients
// and what is made of them come behind it, so no forward node is led to a clone. At the end the
// originals are put back, as losses, readables and assignments are of them.
#include "graph/passes/training/recompute.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/guarded.h"
#include "graph/passes/prune.h"
#include "graph/passes/walk/copier.h"
#include "graph/passes/walk/results.h"
#include "graph/rules/alias.h"

namespace metronome::passes {
namespace {

using Nodes = std::vector<std::int32_t>;

/// [node] Whether one of `ends` depends on it.
std::vector<bool> find_needed(const ir::Graph& graph, const std::vector<ValueId>& ends) {
  std::vector<bool> needed(graph.nodes().size());
  const auto mark = [&](ValueId id) {
    if (id.present()) needed[id.node] = true;
  };
  for (const ValueId end : ends) mark(end);
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const ValueId input : graph.nodes()[i].inputs) mark(input);
    mark(graph.nodes()[i].guard);
  }
  return needed;
}

/// Returns the number of the first node that only gradients need; the number of nodes if there is
/// none.
std::int32_t first_gradient(const ir::Graph& graph) {
  std::vector<ValueId> losses, gradients;
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    losses.push_back(objective.loss);
    for (const ParameterGradient& g : objective.gradients) gradients.push_back(g.value);
  }
  const std::vector<bool> of_loss = find_needed(graph, losses),
                          of_gradient = find_needed(graph, gradients);
  std::int32_t first = 0;
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  while (first < count && (of_loss[first] || !of_gradient[first])) ++first;
  return first;
}

class Recomputer {
 public:
  Recomputer(const ir::Graph& graph, const std::vector<std::string>& paths)
      : graph_(graph),
        count_(static_cast<std::int32_t>(graph.nodes().size())),
        backward_(first_gradient(graph)),
        segment_(graph.nodes().size(), -1),
        cloned_(graph.nodes().size()),
        first_reader_(paths.size(), count_),
        copier_(graph) {
    for (std::int32_t n = 0; n < backward_; ++n) segment_[n] = segment_of(n, paths);
    find_kept();
    find_cloned();
  }

  ir::Graph run() {
    for (std::int32_t n = 0; n < count_; ++n) {
      for (std::size_t s = 0; s < first_reader_.size(); ++s) {
        if (first_reader_[s] == n) append_clones(static_cast<std::int32_t>(s));
      }
      copier_.copy(n);
    }
    // Losses, readables and assignments are of the originals.
    for (const auto& [value, original] : originals_) copier_.replace(value, original);
    return copier_.finish();
  }

 private:
  const Node& node(std::int32_t index) const { return graph_.nodes()[index]; }

  std::int32_t segment_of(std::int32_t index, const std::vector<std::string>& paths) const {
    const Op& op = *node(index).op;
    if (node(index).inputs.empty() || op.as<Guard>() != nullptr || op.effects()) return -1;
    const std::string path = node(index).path.get() + '/';
    const auto found = std::ranges::find_if(
        paths, [&](const std::string& above) { return path.starts_with(above + '/'); });
    return found == paths.end() ? -1 : static_cast<std::int32_t>(found - paths.begin());
  }

  /// Fills `kept_`: what is read outside of its segment, but for operands of gradients.
  void find_kept() {
    for (const Node& made : graph_.nodes()) kept_.emplace_back(made.types.size());
    const auto keep = [&](ValueId id) {
      if (id.present()) kept_[id.node][id.output] = true;
    };
    for (std::int32_t n = 0; n < count_; ++n) {
      keep(node(n).guard);
      for (const ValueId input : node(n).inputs) {
        if (n < backward_ && segment_[n] != segment_[input.node]) keep(input);
      }
    }
    for_each_result(graph_, keep);
  }
  bool is_recomputed(ValueId id) const {
    return segment_[id.node] >= 0 && !kept_[id.node][id.output];
  }

  void find_cloned() {
    for (std::int32_t n = count_ - 1; n >= 0; --n) {
      if (n < backward_ && !cloned_[n]) continue;
      for (const ValueId input : node(n).inputs) {
        if (!is_recomputed(input)) continue;
        cloned_[input.node] = true;
        if (n >= backward_) first_reader_[segment_[input.node]] = n;
      }
    }
  }

  void append_clones(std::int32_t segment) {
    const Nodes waits = gradients_read_by(first_reader_[segment]);
    for (std::int32_t n = 0; n < backward_; ++n) {
      if (cloned_[n] && segment_[n] == segment) append_clone(n, waits);
    }
  }

  void append_clone(std::int32_t index, const Nodes& waits) {
    Node clone = node(index);
    Types types;
    for (ValueId& input : clone.inputs) {
      types.push_back(graph_.type(input));
      input = copier_.at(input);
    }
    clone.guard = copier_.guard_of(clone);
    clone.path = clone.path.get() + ".again";
    if (!clone.op->ask<AliasRule>(types)) {
      clone.waits_for.insert(clone.waits_for.end(), waits.begin(), waits.end());
      clone.waits_for = copier_.waits_of(clone);
    }
    const std::int32_t made = copier_.to.append(std::move(clone)).node;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node(index).types.size()); ++k) {
      const ValueId value{index, k};
      if (!is_recomputed(value)) continue;
      originals_.emplace_back(value, copier_.at(value));
      copier_.replace(value, {made, k});
    }
  }

  /// The gradients earlier than `reader` that it reads. If it reads none (it compares a computed
  /// value with zero), those that are read together with its result; if there are none of these
  /// either, the losses.
  Nodes gradients_read_by(std::int32_t reader) const {
    std::vector<bool> follows(graph_.nodes().size());
    follows[reader] = true;
    Nodes found;
    for (std::int32_t n = reader; n < count_ && found.empty(); ++n) {
      const std::vector<ValueId>& inputs = node(n).inputs;
      follows[n] = follows[n] ||
                   std::ranges::any_of(inputs, [&](ValueId input) { return follows[input.node]; });
      if (!follows[n]) continue;
      for (const ValueId input : inputs) {
        const bool earlier = input.node >= backward_ && input.node < reader;
        // A node that reads nothing, a constant, may run at any time.
        if (earlier && !node(input.node).inputs.empty()) found.push_back(input.node);
      }
    }
    if (!found.empty()) return found;
    for (const ir::MinimizedLoss& objective : graph_.objectives())
      found.push_back(objective.loss.node);
    return found;
  }

  const ir::Graph& graph_;
  const std::int32_t count_;
  const std::int32_t backward_;          // the first node that is not declared
  Nodes segment_;                        // [node] its path's number, or -1
  std::vector<std::vector<bool>> kept_;  // [node][output]
  std::vector<bool> cloned_;             // [node]
  Nodes first_reader_;                   // [segment] the first gradient that reads clones of it
  std::vector<std::pair<ValueId, ValueId>> originals_;  // what was replaced, and by what before
  Copier copier_;
};

}  // namespace

ir::Graph recompute(ir::Graph graph, const Settings& settings) {
  if (settings.recomputed.empty() || settings.mode != Mode::train) return graph;
  const ir::Graph live = prune(graph, settings);  // a gradient that nobody wants reads nothing
  return Recomputer(live, settings.recomputed).run();
}

}  // namespace metronome::passes
