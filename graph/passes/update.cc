#include "graph/passes/update.h"

#include <fmt/format.h>

#include <map>

#include "graph/error.h"
#include "graph/passes/copier.h"
#include "graph/scope.h"
#include "graph/state.h"
#include "graph/structural.h"

namespace metronome {

Graph update(const Graph& graph, const Settings& settings) {
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) copier.copy(i);
  Graph result = copier.finish();
  if (settings.mode != Mode::train) return result;

  std::vector<Assignment> assignments(result.assignments().begin(), result.assignments().end());
  const Line line = result.loss_line();
  const auto advance = [&](Value counter, int storage) {
    const Value next = apply(Increment{}, {counter}, line);
    assignments.push_back({StorageId{storage}, next.id(), line});
  };
  PassScope scope(result, "optimizer", line);
  advance(result.replay(), 1);
  if (result.loss().present()) {
    const OptimizerRule& optimizer = **result.optimizer();
    const std::vector<ParameterGradient> gradients(result.parameter_gradients().begin(),
                                                   result.parameter_gradients().end());
    Values values;
    for (const ParameterGradient& g : gradients) values.push_back(result.value(g.value));
    values = optimizer.clip(values);
    std::map<double, Values> scalars;  // by rate
    for (const ParameterGradient& g : gradients) {
      const double rate = result.storage(g.parameter).rate;
      if (!scalars.contains(rate)) scalars[rate] = optimizer.scalars(result.update(), rate);
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Storage parameter = result.storage(gradients[i].parameter);
      PassScope place(result, fmt::format("optimizer/{}", parameter.path), line);
      Values slots;
      std::vector<StorageId> storages = {gradients[i].parameter};
      for (const Slot& slot : optimizer.slots()) {
        storages.push_back(result.append_storage(
            {fmt::format("optimizer/{}/{}", slot.name, parameter.path), parameter.type,
             StorageKind::moment, slot.init, parameter.line, false}));
        slots.push_back(result.read(storages.back()));
      }
      const Values next = optimizer.update(result.read(gradients[i].parameter), values[i], slots,
                                           scalars.at(parameter.rate));
      if (next.size() < storages.size()) {
        throw InternalError(fmt::format("{} gives {} values for a parameter and {} moments",
                                        optimizer.name(), next.size(), slots.size()));
      }
      for (std::size_t k = 0; k < storages.size(); ++k) {
        assignments.push_back({storages[k], next[k].id(), line});
      }
    }
    advance(result.update(), 2);
  }
  if (!result.state().mistakes.empty()) {
    throw InternalError(
        fmt::format("the optimizer's graph: {}", fmt::join(result.state().mistakes, "\n")));
  }
  result.set_assignments(std::move(assignments));
  result.set_parameter_gradients({});  // they have done their work
  return result;
}

}  // namespace metronome
