#include "executor/binding.h"

#include "ops/cpu/table.h"

namespace metronome {

CpuKernel bind_node(const Plan& plan, std::int32_t index, const Locate& locate, std::byte* scratch,
                    CpuFault fault) {
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
      *node.op, {inputs, node.types, input_data, output_data, scratch, plan.choices[index], fault});
}

ValueId guard_of(const Plan& plan, std::int32_t index) {
  const Node& node = plan.graph.nodes()[index];
  for (const InPlace& right : node.op->in_place()) {
    const int guard = node.op->idle_unless(right);
    if (guard < 0) continue;
    const ValueId under = node.inputs[right.input];
    const Place& place = plan.memory.places[index][right.output];
    if (place.in != Place::In::none && place == plan.memory.places[under.node][under.output]) {
      return node.inputs[guard];
    }
  }
  return node.guard;
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
