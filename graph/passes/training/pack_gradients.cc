#include "graph/passes/training/pack_gradients.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/structural.h"
#include "graph/passes/copier.h"

namespace metronome::passes {
namespace {

/// What is packed with others, and where it stands.
using Packed = std::vector<ValueId*>;

/// Packs values of one element type, and puts the views in their places.
void pack(Emitter& emitter, const Packed& values, const Settings& settings, Line line) {
  PassScope place(emitter, "gradients", line);
  const Pack op{settings.alignment};
  Values operands;
  Types types;
  for (const ValueId* value : values) {
    operands.push_back(emitter.value(*value));
    types.push_back(operands.back().type());
  }
  Value packed = apply(make_op(op), operands, line)[0];
  const std::vector<Inside> inside = op.inside(types);
  if (settings.averages) packed = apply(settings.averages, std::span(&packed, 1), line)[0];
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto begin = static_cast<std::int64_t>(inside[k].offset / size_of(packed.element()));
    *values[k] = apply(Unpack{begin, types[k].shape}, {packed}, line).id();
  }
}

/// Whoever reads one of `before` reads what it has become.
void redirect_readables(ir::Graph& graph, const std::map<ValueId, ValueId>& become) {
  for (std::size_t i = 0; i < graph.readables().size(); ++i) {
    const auto found = become.find(graph.readables()[i].value);
    if (found != become.end()) graph.set_readable(i, found->second);
  }
}

}  // namespace

ir::Graph pack_gradients(ir::Graph graph, const Settings& settings) {
  const bool packs = settings.packs_gradients || settings.averages;
  if (!packs || settings.mode != Mode::train) return graph;
  Copier copier(graph);
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(graph.nodes().size()); ++node) {
    copier.copy(node);
  }
  ir::Graph packed = copier.finish();
  Emitter emitter{packed};
  for (std::size_t i = 0; i < packed.objectives().size(); ++i) {
    std::vector<ParameterGradient> gradients = packed.objectives()[i].gradients;
    ValueId loss = packed.objectives()[i].loss;
    std::map<Element, Packed> by_element;
    for (ParameterGradient& g : gradients) {
      by_element[packed.type(g.value).element].push_back(&g.value);
    }
    if (settings.averages) by_element[packed.type(loss).element].push_back(&loss);
    std::map<ValueId, ValueId> become;
    for (const auto& [element, values] : by_element) {
      std::vector<ValueId> before;
      for (const ValueId* value : values) before.push_back(*value);
      pack(emitter, values, settings, packed.objectives()[i].line);
      for (std::size_t k = 0; k < values.size(); ++k) become[before[k]] = *values[k];
    }
    packed.set_gradients(i, std::move(gradients));
    if (!settings.averages) continue;
    packed.set_loss(i, loss);
    redirect_readables(packed, become);
  }
  return packed;
}

}  // namespace metronome::passes
