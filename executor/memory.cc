#include "executor/memory.h"

#include <cstring>

#include "graph/error.h"
#include "graph/structural.h"
#include "ops/init.h"

namespace metronome {

std::byte* Memory::input(const std::string& name) const {
  for (const InputMemory& i : inputs) {
    if (i.name == name) return i.block.data();
  }
  throw InternalError("no input memory for \"" + name + "\"");
}

Memory make_memory(const Graph& declared, std::span<const Storage> storages, std::uint64_t seed) {
  Memory memory;
  memory.storages.assign(storages.begin(), storages.end());
  for (const Storage& s : memory.storages) {
    memory.storage_blocks.emplace_back(s.type.bytes());
    initialise(s, seed, memory.storage_blocks.back().data());
  }
  const auto number = static_cast<std::int64_t>(seed);
  std::memcpy(memory.storage_blocks[0].data(), &number, sizeof number);  // the counter "seed"
  for (std::size_t i = 0; i < declared.nodes().size(); ++i) {
    const Node& node = declared.nodes()[i];
    if (const Input* input = node.op->as<Input>()) {
      memory.inputs.push_back({input->input, ValueId{static_cast<std::int32_t>(i), 0}, input->type,
                               Block(input->type.bytes())});
    }
  }
  return memory;
}

}  // namespace metronome
