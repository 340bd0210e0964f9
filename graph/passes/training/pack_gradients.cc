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

/// Packs those gradients of an objective that `which` names, and puts the views in their place.
void pack(Emitter& emitter, std::vector<ParameterGradient>& gradients,
          const std::vector<std::size_t>& which, const Settings& settings, Line line) {
  PassScope place(emitter, "gradients", line);
  const Pack op{settings.alignment};
  Values operands;
  Types types;
  for (const std::size_t i : which) {
    operands.push_back(emitter.value(gradients[i].value));
    types.push_back(operands.back().type());
  }
  const Value packed = apply(make_op(op), operands, line)[0];
  const std::vector<Inside> inside = op.inside(types);
  for (std::size_t k = 0; k < which.size(); ++k) {
    const auto begin = static_cast<std::int64_t>(inside[k].offset / size_of(packed.element()));
    gradients[which[k]].value = apply(Unpack{begin, types[k].shape}, {packed}, line).id();
  }
}

}  // namespace

ir::Graph pack_gradients(ir::Graph graph, const Settings& settings) {
  if (!settings.packs_gradients || settings.mode != Mode::train) return graph;
  Copier copier(graph);
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(graph.nodes().size()); ++node) {
    copier.copy(node);
  }
  ir::Graph packed = copier.finish();
  Emitter emitter{packed};
  for (std::size_t i = 0; i < packed.objectives().size(); ++i) {
    std::vector<ParameterGradient> gradients = packed.objectives()[i].gradients;
    std::map<Element, std::vector<std::size_t>> by_element;
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      by_element[packed.type(gradients[k].value).element].push_back(k);
    }
    for (const auto& [element, which] : by_element) {
      pack(emitter, gradients, which, settings, packed.objectives()[i].line);
    }
    packed.set_gradients(i, std::move(gradients));
  }
  return packed;
}

}  // namespace metronome::passes
