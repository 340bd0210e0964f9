#include "benchmarks/inference/answering.h"

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::benchmarks {
namespace {

/// [node]: the value is made of it.
std::vector<bool> nodes_behind(const ir::Graph& graph, ValueId value) {
  std::vector<bool> behind(graph.nodes().size());
  std::vector<std::int32_t> left = {value.node};
  while (!left.empty()) {
    const std::int32_t node = left.back();
    left.pop_back();
    if (behind[node]) continue;
    behind[node] = true;
    for (const ValueId operand : graph.nodes()[node].inputs) left.push_back(operand.node);
  }
  return behind;
}

}  // namespace

models::Model answering(const models::ModelEntry& entry, models::Size size) {
  models::Model model = entry.make(size, f32);
  const std::vector<bool> behind = nodes_behind(model.graph.data(), model.answer.id());
  std::erase_if(model.inputs, [&](const Value& input) { return !behind[input.id().node]; });
  model.graph.output(kAnswer, model.answer);
  return model;
}

CompileOptions answer_options(int threads) {
  return {.modes = {evaluate}, .evaluate_outputs = {{kAnswer}}, .threads = threads};
}

}  // namespace metronome::benchmarks
