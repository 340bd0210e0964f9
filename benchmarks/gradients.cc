#include "benchmarks/gradients.h"

#include "graph/ir/graph.h"

namespace metronome::benchmarks {

std::vector<TrainedParameter> keep_gradients(models::Model& model) {
  Graph& graph = model.graph;
  // Those of before: each gradient may append nodes.
  std::vector<StorageId> trained;
  for (std::size_t i = 0; i < graph.data().storages().size(); ++i) {
    const StorageId id{static_cast<std::int32_t>(i)};
    if (graph.data().storage(id).trainable) trained.push_back(id);
  }
  std::vector<TrainedParameter> parameters;
  for (const StorageId id : trained) {
    const Storage& storage = graph.data().storage(id);
    const auto index = static_cast<std::size_t>(storage.objective);
    const ir::MinimizedLoss& by = graph.data().objectives()[index];
    const Objective objective(graph.value(by.loss), index, by.name);
    const std::string path = storage.path;
    parameters.push_back(
        {path, index, objective.gradient(graph.value(*graph.data().find_read(id)))});
  }
  return parameters;
}

}  // namespace metronome::benchmarks
