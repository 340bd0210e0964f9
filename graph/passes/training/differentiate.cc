// Reverse accumulation (Griewank and Walther, "Evaluating Derivatives", 2008, section 3.2).
#include "graph/passes/training/differentiate.h"

#include <fmt/format.h>

#include "graph/control/guards.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/passes/copier.h"
#include "graph/passes/training/gradient_sums.h"

namespace metronome::passes {
namespace {

/// Which nodes of `graph` depend on something whose gradient is asked for.
std::vector<bool> active_nodes(const ir::Graph& graph) {
  std::vector<bool> active(graph.nodes().size(), false);
  for (const Node& node : graph.nodes()) {
    if (node.op->as<GradientOf>() != nullptr) active[node.inputs[0].node] = true;
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (const Read* read = node.op->as<Read>()) {
      active[i] = active[i] || graph.storage(read->storage).trainable;
    } else if (node.op->differentiable()) {
      for (const ValueId input : node.inputs) active[i] = active[i] || active[input.node];
    }
  }
  return active;
}

/// The reverse walk over the forward nodes of one graph.
class Reverse {
 public:
  Reverse(ir::Graph& graph, const std::vector<bool>& active)
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
    if (!node.op->differentiable()) return;
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
    const Values contributions = node.op->vjp({inputs, outputs, incoming});
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

  /// What a merge receives goes to the branch that ran, as it is. Where that would be more than one
  /// contribution for an operand, it is joined first: else a choice after a loop would be told
  /// apart again at each iteration.
  void pass_on(const Node& merge, ValueId result) {
    struct Passed {
      ValueId target;
      GradientSums::Contribution what;
    };
    std::vector<Passed> passed;
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
      for (Passed& p : passed) add(p.target, p.what.value, std::move(p.what.when));
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
  Copier copier(graph);
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  std::vector<bool> active;
  {
    const std::vector<bool> before = active_nodes(graph);
    for (std::int32_t i = 0; i < count; ++i) {
      if (graph.nodes()[i].op->as<GradientOf>() != nullptr) continue;
      copier.copy(i);
      active.push_back(before[i]);
    }
  }
  std::vector<ValueId> now(count);  // before finish() takes the copier's graph
  for (std::int32_t i = 0; i < count; ++i) {
    if (copier.has({i, 0})) now[i] = copier.at({i, 0});
  }
  ir::Graph result = copier.finish();

  for (std::size_t o = 0; o < result.objectives().size(); ++o) {
    Reverse reverse(result, active);
    reverse.run(result.objectives()[o].loss);

    std::vector<ParameterGradient> gradients;
    for (std::int32_t i = 0; i < count; ++i) {
      const Read* read = graph.nodes()[i].op->as<Read>();
      if (read == nullptr || !graph.storage(read->storage).trainable) continue;
      const Value g = reverse.of(now[i]);
      if (g.present()) gradients.push_back({read->storage, g.id()});
    }
    result.set_gradients(o, std::move(gradients));

    // What users read is the gradient of the first.
    for (std::size_t r = 0; o == 0 && r < graph.readables().size(); ++r) {
      const ValueId readable = graph.readables()[r].value;
      if (!readable.present() || graph.node(readable).op->as<GradientOf>() == nullptr) continue;
      const ValueId of = graph.node(readable).inputs[0];
      const Value g = reverse.of({now[of.node].node, of.output});
      if (g.present()) {
        result.set_readable(r, g.id());
      } else {  // the loss does not depend on it
        const Node& asked = graph.node(readable);
        result.set_readable(r, result.append({.op = make_op(Fill{0, graph.type(of)}),
                                              .path = asked.path,
                                              .line = asked.line}));
      }
    }
  }
  return result;
}

}  // namespace metronome::passes
