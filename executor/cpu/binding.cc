#include "executor/cpu/binding.h"

namespace metronome::executor::cpu {

CpuKernel bind_node(const CpuTable& table, const Plan& plan, std::int32_t index,
                    const Locator& locate, std::byte* scratch, CpuFault fault) {
  const Node& node = plan.graph.nodes()[index];
  const Types inputs = plan.graph.operands(node);
  std::vector<void*> input_data, output_data;
  for (const ValueId id : node.inputs) input_data.push_back(locate(id));
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    output_data.push_back(locate({index, static_cast<std::int32_t>(k)}));
  }
  return table.of(*node.op).bind(
      *node.op, {inputs, node.types, input_data, output_data, scratch, plan.choices[index], fault});
}

}  // namespace metronome::executor::cpu
