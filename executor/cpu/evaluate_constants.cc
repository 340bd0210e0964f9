#include "executor/cpu/evaluate_constants.h"

#include <cstring>
#include <exception>

#include "executor/engine/block.h"
#include "ops/cpu/table.h"

namespace metronome::executor::cpu {

std::vector<Bytes> evaluate_constants(const Op& op, std::span<const Type> types,
                                      std::span<const Bytes> inputs) {
  if (!cpu_table().has(op)) return {};
  const Types outputs = op.infer(types);
  std::vector<Block> blocks;
  std::vector<void*> input_data, output_data;
  for (const Bytes& bytes : inputs) {
    blocks.emplace_back(bytes.size());
    if (!bytes.empty()) std::memcpy(blocks.back().data(), bytes.data(), bytes.size());
    input_data.push_back(blocks.back().data());
  }
  for (const Type& type : outputs) {
    blocks.emplace_back(type.bytes());
    output_data.push_back(blocks.back().data());
  }
  const CpuTable::Rules& rules = cpu_table().of(op);
  const Candidate choice = rules.candidates(op, {types, outputs, 1}).front();
  const Block scratch(choice.scratch_bytes);
  FaultSlot faults;
  const CpuKernel kernel = rules.bind(
      op, {types, outputs, input_data, output_data, scratch.data(), choice, {&faults, 0}});
  try {
    kernel();
  } catch (const std::exception&) {
    return {};  // the node stays, and a step names it where it fails again
  }
  if (faults.any()) return {};
  std::vector<Bytes> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto* data = static_cast<const std::byte*>(output_data[i]);
    results.emplace_back(data, data + outputs[i].bytes());
  }
  return results;
}

}  // namespace metronome::executor::cpu
