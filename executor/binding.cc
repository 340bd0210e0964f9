#include "executor/binding.h"

#include "ops/cpu/table.h"

namespace metronome {

CpuKernel bind_node(const Plan& plan, std::int32_t index, const Locate& locate,
                    std::byte* scratch) {
  const Node& node = plan.graph.nodes()[index];
  Types inputs;
  std::vector<void*> input_data, output_data;
  for (const ValueId id : node.inputs) {
    inputs.push_back(plan.graph.type(id));
    input_data.push_back(locate(id));
  }
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    output_data.push_back(locate({index, static_cast<std::int32_t>(k)}));
  }
  return cpu_table().of(*node.op).bind(
      *node.op, {inputs, node.types, input_data, output_data, scratch, plan.choices[index]});
}

std::optional<View> view_of(const Graph& graph, ValueId value) {
  const Node& node = graph.node(value);
  Types types;
  for (const ValueId id : node.inputs) types.push_back(graph.type(id));
  const auto alias = node.op->alias(types);
  if (!alias || alias->output != value.output) return std::nullopt;
  return View{node.inputs[alias->input], alias->offset};
}

}  // namespace metronome
