#include "executor/memory.h"

#include <algorithm>
#include <cstring>

#include "executor/batch_shapes.h"
#include "graph/error.h"
#include "ops/init.h"

namespace metronome {

std::size_t Memory::find(const Input& input) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == input.input && inputs[i].type == input.type) return i;
  }
  throw InternalError("no input memory for \"" + input.input + "\"");
}

void Memory::hand_out(std::size_t input) {
  if (inputs[input].handed_out) return;
  inputs[input].handed_out = true;
  const std::byte* begin = inputs[input].block.data();
  const std::size_t bytes = inputs[input].type.bytes();
  if (bytes == 0) return;
  const auto after = std::ranges::upper_bound(handed_out, begin, {}, &HandedOut::begin);
  handed_out.insert(after, {begin, begin + bytes, input});
}

std::vector<std::size_t> Memory::storages_of(const Graph& graph) const {
  std::vector<std::size_t> indices;
  for (const Storage& s : graph.storages()) {
    const auto found = std::ranges::find(storages, s.path, &Storage::path);
    if (found == storages.end()) throw InternalError("no memory for \"" + s.path + "\"");
    indices.push_back(static_cast<std::size_t>(found - storages.begin()));
  }
  return indices;
}

Memory make_memory(std::span<const Graph* const> declared, std::vector<Storage> storages,
                   std::uint64_t seed) {
  Memory memory;
  memory.storages = std::move(storages);
  for (const Storage& s : memory.storages) {
    memory.storage_blocks.emplace_back(s.type.bytes());
    initialise(s, seed, memory.storage_blocks.back().data());
  }
  const auto number = static_cast<std::int64_t>(seed);
  std::memcpy(memory.storage_blocks[0].data(), &number, sizeof number);  // the counter "seed"
  const std::vector<DeclaredInput> first = inputs_of(*declared[0]);
  for (const Graph* graph : declared) {
    const std::vector<DeclaredInput> own = inputs_of(*graph);
    std::vector<std::size_t> indices;
    for (const DeclaredInput& input : first) {
      const Type type = std::ranges::find(own, input.name, &DeclaredInput::name)->type;
      const auto found = std::ranges::find_if(memory.inputs, [&](const InputMemory& known) {
        return known.name == input.name && known.type == type;
      });
      indices.push_back(static_cast<std::size_t>(found - memory.inputs.begin()));
      if (found == memory.inputs.end()) {
        memory.inputs.push_back({input.name, type, Block(type.bytes())});
      }
    }
    memory.inputs_of.push_back(std::move(indices));
  }
  return memory;
}

}  // namespace metronome
