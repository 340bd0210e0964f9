#include "executor/cpu/binding.h"

#include <optional>

#include "executor/engine/plan_nodes.h"

namespace metronome::executor::cpu {

CpuKernel bind_node(const CpuTable& table, const Plan& plan, std::int32_t index,
                    const BoundMemory& memory, std::byte* scratch, CpuFault fault) {
  const Node& node = plan.graph.nodes()[index];
  const Types inputs = plan.graph.operands(node);
  std::vector<void*> input_data, output_data;
  std::vector<const std::uint64_t*> versions;
  for (const ValueId id : node.inputs) {
    input_data.push_back(memory.locate(id));
    const std::optional<StorageId> parameter = parameter_of(plan.graph, id);
    versions.push_back(parameter ? memory.versions.of(memory.storages[parameter->index]) : nullptr);
  }
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    output_data.push_back(memory.locate({index, static_cast<std::int32_t>(k)}));
  }
  return table.of(*node.op).bind(*node.op, {.inputs = inputs,
                                            .outputs = node.types,
                                            .input_data = input_data,
                                            .output_data = output_data,
                                            .scratch = scratch,
                                            .choice = plan.choices[index],
                                            .fault = fault,
                                            .versions = versions});
}

}  // namespace metronome::executor::cpu
