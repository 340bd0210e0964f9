// Reverse accumulation (Griewank and Walther, "Evaluating Derivatives", 2008, section 3.2):
//
//   copy   the forward nodes; those made of gradients or of the update wait
//   seed   the loss's own gradient is 1
//   walk   from the loss back, over nodes that depend on something whose gradient is asked for:
//          the vjp of a node's op turns gradients of its results into contributions to those of
//          its operands, and `GradientSums` adds them up
//   list   a parameter's sum is a gradient of the objective; a `GradientOf` gets its operand's sum
//          (seed, walk and list once for each objective, over what it trains)
//   copy   the nodes that waited, after zeros for values on which the loss does not depend
//
// A vjp runs under the guard of its node. A merge passes a gradient on to the branch that ran.
#include "graph/passes/training/differentiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "graph/control/regions.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/passes/training/gradient_sums.h"
#include "graph/passes/walk/copier.h"
#include "graph/rules/gradient.h"

namespace metronome::passes {
namespace {

/// True for a parameter that the objective trains.
bool trains(const ir::Graph& graph, std::size_t objective, StorageId parameter) {
  const Storage& s = graph.storage(parameter);
  return s.trainable && static_cast<std::size_t>(std::max(s.objective, 0)) == objective;
}

bool is_gradient_of(const Node& node, std::size_t objective) {
  return node.op->as<GradientOf>() != nullptr && objective_of(*node.op) == objective;
}

/// [node] Whether the node depends on something whose gradient is asked for of the objective.
std::vector<bool> active_nodes(const ir::Graph& graph, std::size_t objective) {
  std::vector<bool> active(graph.nodes().size(), false);
  for (const Node& node : graph.nodes()) {
    if (is_gradient_of(node, objective)) active[node.inputs[0].node] = true;
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (const Read* read = node.op->as<Read>()) {
      active[i] = active[i] || trains(graph, objective, read->storage);
    } else if (differentiable(*node.op)) {
      for (const ValueId input : node.inputs) active[i] = active[i] || active[input.node];
    }
  }
  return active;
}

/// The reverse walk over the forward nodes of one graph.
class ReverseWalk {
 public:
  ReverseWalk(ir::Graph& graph, const std::vector<bool>& active)
      : graph_(graph), active_(active), emitter_(graph), sums_(emitter_) {}

  void run(ValueId loss) {
    {
      const Node node = graph_.node(loss);
      PassScope scope(emitter_, node.path.get() + ".grad", node.line);
      Node seed;
      seed.op = make_op(Fill{1, graph_.type(loss)});
      seed.path = node.path.get() + ".grad";
      seed.line = node.line;
      sums_.add(loss, emitter_.value(graph_.append(std::move(seed))), {});
    }
    for (std::int32_t i = loss.node; i >= 0; --i) {
      if (active_[i]) visit(i);
    }
  }

  Value of(ValueId value) { return sums_.of(value); }

 private:
  void visit(std::int32_t index) {
    const Node node = graph_.nodes()[index];  // a copy: the vector grows below
    if (!differentiable(*node.op)) return;
    if (node.op->as<Merge>() != nullptr) return pass_on(node, {index, 0});
    Values outputs, incoming;
    bool any = false;
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      const ValueId id{index, static_cast<std::int32_t>(k)};
      outputs.push_back(emitter_.value(id));
      incoming.push_back(of(id));
      any = any || incoming.back().present();
    }
    if (!any) return;
    Values inputs;
    for (const ValueId id : node.inputs) inputs.push_back(emitter_.value(id));

    PassScope scope(emitter_, node.path.get() + ".grad", node.line, node.guard);
    const Values contributions = node.op->ask<VjpRule>(Vjp{inputs, outputs, incoming});
    if (contributions.size() > node.inputs.size()) {
      throw InternalError(fmt::format("the vjp of {} gives {} gradients for {} inputs",
                                      node.op->name(), contributions.size(), node.inputs.size()));
    }
    for (std::size_t k = 0; k < contributions.size(); ++k) {
      if (contributions[k].present() && active_[node.inputs[k].node]) {
        add(node.inputs[k], contributions[k], {{node.guard, true}});
      }
    }
  }

  /// Passes the contributions that a merge receives to the branch that ran, as they are. If that
  /// would be more than one contribution for an operand, they are joined first: else a choice after
  /// a loop would be told apart again at each iteration.
  void pass_on(const Node& merge, ValueId result) {
    struct PassedGradient {
      ValueId target;
      GradientSums::Contribution what;
    };
    std::vector<PassedGradient> passed;
    std::vector<std::size_t> operands;
    for (std::size_t k = 0; k < merge.inputs.size(); ++k) {
      if (active_[merge.inputs[k].node]) operands.push_back(k);
    }
    for (const GradientSums::Contribution& c : sums_.contributions(result)) {
      for (const std::size_t k : operands) {
        std::vector<control::GuardFact> facts = control::read_under(merge, k);
        facts.insert(facts.end(), c.when.begin(), c.when.end());
        if (!sums_.counts(merge.inputs[k], facts)) continue;
        passed.push_back({merge.inputs[k], {c.value, std::move(facts)}});
      }
    }
    PassScope scope(emitter_, merge.path.get() + ".grad", merge.line, merge.guard);
    if (passed.size() <= operands.size()) {
      for (PassedGradient& p : passed) add(p.target, p.what.value, std::move(p.what.when));
      return;
    }
    const Value joined = of(result);
    for (const std::size_t k : operands)
      add(merge.inputs[k], joined, control::read_under(merge, k));
  }

  void add(ValueId target, Value contribution, std::vector<control::GuardFact> when) {
    if (contribution.poisoned()) {
      throw InternalError(fmt::format("a vjp failed: {}", fmt::join(emitter_.mistakes, "\n")));
    }
    if (contribution.type() != graph_.type(target)) {
      throw InternalError(fmt::format("\"{}\" of type {} got a gradient {}",
                                      graph_.node(target).path, to_string(graph_.type(target)),
                                      to_string(contribution.type())));
    }
    sums_.add(target, contribution, std::move(when));
  }

  ir::Graph& graph_;
  const std::vector<bool>& active_;
  Emitter emitter_;
  GradientSums sums_;
};

}  // namespace

ir::Graph differentiate(ir::Graph graph, const Settings& settings) {
  if (settings.mode != Mode::train) return graph;
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  const std::vector<bool> by_training = ir::made_by_training(graph);
  Copier copier(graph);
  for (std::int32_t i = 0; i < count; ++i) {
    if (!by_training[i]) copier.copy(i);
  }
  std::vector<std::vector<ParameterGradient>> gradients(graph.objectives().size());
  std::map<std::int32_t, ValueId> asked;  // by the node that stands for it
  for (std::size_t o = 0; o < gradients.size(); ++o) {
    std::vector<bool> active;  // of what is copied
    {
      const std::vector<bool> before = active_nodes(graph, o);
      for (std::int32_t i = 0; i < count; ++i) {
        if (!by_training[i]) active.push_back(before[i]);
      }
    }
    ReverseWalk reverse(copier.to, active);
    reverse.run(copier.at(graph.objectives()[o].loss));
    const auto gradient = [&](ValueId of) { return reverse.of(copier.at(of)); };
    for (std::int32_t i = 0; i < count; ++i) {
      const Node& node = graph.nodes()[i];
      if (const Read* read = node.op->as<Read>()) {
        if (!trains(graph, o, read->storage)) continue;
        const Value g = gradient({i, 0});
        if (g.present()) gradients[o].push_back({read->storage, g.id()});
      } else if (is_gradient_of(node, o)) {
        const Value g = gradient(node.inputs[0]);
        if (g.present()) asked[i] = g.id();
      }
    }
  }
  // Values on which the loss does not depend have a gradient of zeros.
  for (std::int32_t i = 0; i < count; ++i) {
    if (!by_training[i]) continue;
    Node node = graph.nodes()[i];
    if (node.op->as<GradientOf>() == nullptr) {
      copier.copy(i);
      continue;
    }
    const auto found = asked.find(i);
    const ValueId of =
        found != asked.end()
            ? found->second
            : copier.to.append(
                  {.op = make_op(Fill{0, node.types[0]}), .path = node.path, .line = node.line});
    node.inputs = {of};
    copier.replace({i, 0}, copier.to.append(std::move(node)));
  }
  ir::Graph result = copier.finish();
  for (std::size_t o = 0; o < gradients.size(); ++o)
    result.set_gradients(o, std::move(gradients[o]));
  return result;
}

}  // namespace metronome::passes
