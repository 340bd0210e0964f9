// Backwards over the nodes: each takes the strongest guard that all its readers imply.
//
//   h = f(x)        always    read by the loss and by its gradient   if g
//   loss = ...      always    read by a merge where g is true        if g
//   dw = ...        always    read by the update                     if g
//   w' = update(dw) if g
//   merge(g, w', w) always
//
// A node that nothing needs is no reader, and is left out.
// A guard may come behind nodes that sink under it. So nodes are then copied in their order, but
// each behind its guard and what that guard is made of.
#include "graph/passes/training/sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/control/regions.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"
#include "graph/passes/walk/results.h"

namespace metronome::passes {
namespace {

class Sinking {
 public:
  Sinking(const ir::Graph& graph, std::span<const ValueId> guards)
      : graph_(graph),
        guards_(guards.begin(), guards.end()),
        regions_(graph.nodes()),
        of_(graph.nodes().size()),
        stays_(graph.nodes().size()),
        needed_(graph.nodes().size()),
        readers_(graph.nodes().size()) {
    std::ranges::sort(guards_, std::greater());
    std::vector<int> uses = uses_of_nodes(graph);
    for_each_result(graph, [&](ValueId id) { stays_[id.node] = true; });
    for (std::int32_t i = count() - 1; i >= 0; --i) {
      const Node& node = graph.nodes()[i];
      needed_[i] = uses[i] > 0 || node.op->effects();
      if (!needed_[i]) {
        for (const ValueId input : node.inputs) --uses[input.node];
        if (node.guard.present()) --uses[node.guard.node];
        for (const std::int32_t before : node.waits_for) --uses[before];
        continue;
      }
      of_[i] = node.guard;
      if (node.guard.present()) stays_[node.guard.node] = true;
      for (const std::int32_t before : node.waits_for) stays_[before] = true;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        readers_[node.inputs[k].node].push_back({i, k});
      }
    }
  }

  ir::Graph run() {
    for (std::int32_t i = count() - 1; i >= 0; --i) {
      if (may_sink(i)) of_[i] = strongest(i);
    }
    Copier copier(graph_);
    for (const std::int32_t i : order()) {
      Node node = graph_.nodes()[i];
      node.guard = of_[i];
      copier.append(i, std::move(node));
    }
    return copier.finish();
  }

 private:
  struct Reader {
    std::int32_t node;
    std::size_t operand;
  };

  std::int32_t count() const { return static_cast<std::int32_t>(graph_.nodes().size()); }

  bool may_sink(std::int32_t index) const {
    const Node& node = graph_.nodes()[index];
    const bool has_kernel = node.op->as<Input>() == nullptr && node.op->as<Read>() == nullptr;
    return has_kernel && node.op->as<Guard>() == nullptr && !node.op->effects() &&
           !node.guard.present() && !stays_[index] && needed_[index];
  }

  ValueId strongest(std::int32_t index) const {
    for (const ValueId guard : guards_) {
      const auto implies = [&](const Reader& reader) {
        Node node = graph_.nodes()[reader.node];
        node.guard = of_[reader.node];
        const std::vector<control::GuardFact> facts = control::read_under(node, reader.operand);
        return regions_.possible(facts) && regions_.implies(facts, guard);  // "never" implies all
      };
      if (std::ranges::all_of(readers_[index], implies)) return guard;
    }
    return {};
  }

  /// All nodes that are needed, each behind those that it reads or waits for, and behind its guard.
  std::vector<std::int32_t> order() const {
    std::vector<std::int32_t> order;
    std::vector<bool> begun(of_.size()), placed(of_.size());
    std::vector<std::int32_t> open;
    for (std::int32_t i = 0; i < count(); ++i) {
      if (needed_[i]) open.push_back(i);
      while (!open.empty()) {
        const std::int32_t node = open.back();
        const std::size_t before = open.size();
        const auto require = [&](std::int32_t other) {
          if (placed[other]) return;
          if (begun[other]) {
            throw InternalError(fmt::format("\"{}\" sank under a guard that is made of it, \"{}\"",
                                            graph_.nodes()[node].path, graph_.nodes()[other].path));
          }
          open.push_back(other);
        };
        if (!placed[node]) {
          begun[node] = true;
          for (const ValueId input : graph_.nodes()[node].inputs) require(input.node);
          for (const std::int32_t other : graph_.nodes()[node].waits_for) require(other);
          if (of_[node].present()) require(of_[node].node);
        }
        if (open.size() > before) continue;
        open.pop_back();
        if (!placed[node]) order.push_back(node);
        placed[node] = true;
      }
    }
    return order;
  }

  const ir::Graph& graph_;
  std::vector<ValueId> guards_;  // the latest first
  control::Regions regions_;
  std::vector<ValueId> of_;                   // [node] its guard
  std::vector<bool> needed_;                  // [node]
  std::vector<bool> stays_;                   // [node] a result, a guard, or waited for
  std::vector<std::vector<Reader>> readers_;  // [node]
};

}  // namespace

ir::Graph sink(const ir::Graph& graph, std::span<const ValueId> guards) {
  return Sinking(graph, guards).run();
}

}  // namespace metronome::passes
