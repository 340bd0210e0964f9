#include "executor/compile/make_memory.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "executor/run/batch_shapes.h"
#include "ops/language/init.h"

namespace metronome::executor::compile {

std::vector<Storage> storages_of(std::span<const Plan> plans) {
  std::vector<Storage> all;
  std::set<std::string_view> known;
  for (const Plan& plan : plans) {
    for (const Storage& s : plan.graph.storages()) {
      if (known.insert(s.path).second) all.push_back(s);
    }
  }
  return all;
}

Memory make_memory(std::span<const ir::Graph* const> declared, std::vector<Storage> storages,
                   std::uint64_t seed) {
  Memory memory;
  memory.storages = std::move(storages);
  for (const Storage& s : memory.storages) {
    memory.storage_blocks.emplace_back(s.stored_type().bytes());
    memory.plain_blocks.push_back(s.layout.plain() ? Block() : Block(s.type.bytes()));
    const std::size_t storage = memory.storage_blocks.size() - 1;
    initialise(s, seed, memory.plain(storage).data());
    memory.keep(storage);
  }
  const auto number = static_cast<std::int64_t>(seed);
  const auto counter = static_cast<std::size_t>(declared[0]->counters().seed.index);
  std::memcpy(memory.storage_blocks[counter].data(), &number, sizeof number);
  for (const ir::Graph* graph : declared) {
    std::vector<std::size_t> indices;
    for (const DeclaredInput& input : inputs_of(*graph)) {
      const auto found = std::ranges::find_if(memory.inputs, [&](const InputMemory& known) {
        return known.name == input.name && known.type == input.type;
      });
      indices.push_back(static_cast<std::size_t>(found - memory.inputs.begin()));
      if (found == memory.inputs.end()) {
        memory.inputs.push_back({input.name, input.type, Block(input.type.bytes())});
      }
    }
    memory.inputs_of.push_back(std::move(indices));
  }
  return memory;
}

void add_sizes(const Memory& memory, Report& report) {
  for (const Storage& s : memory.storages) {
    report.storage_bytes += s.stored_type().bytes();
    if (s.kind == StorageKind::parameter) {
      report.parameter_count += static_cast<std::size_t>(s.type.numel());
    }
  }
}

}  // namespace metronome::executor::compile
