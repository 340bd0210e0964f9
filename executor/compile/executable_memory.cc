#include "executor/compile/executable_memory.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "executor/engine/plan_nodes.h"
#include "executor/run/batch_shapes.h"
#include "ops/language/init.h"

namespace metronome::executor::compile {
namespace {

void add_value(Needs& needs, const Type& type, const std::string& what) {
  needs.values.push_back({fmt::format("{} {}", to_string(type), what), type.bytes()});
}

/// Graphs that declare an input with one shape share its memory.
std::size_t add_inputs(std::span<const ir::Graph* const> graphs, Needs& needs) {
  std::vector<DeclaredInput> known;
  std::size_t bytes = 0;
  for (const ir::Graph* graph : graphs) {
    for (const DeclaredInput& input : inputs_of(*graph)) {
      const bool shared = std::ranges::any_of(known, [&](const DeclaredInput& other) {
        return other.name == input.name && other.type == input.type;
      });
      if (shared) continue;
      known.push_back(input);
      bytes += input.type.bytes();
      add_value(needs, input.type, fmt::format("\"{}\", an input", input.name));
    }
  }
  return bytes;
}

std::size_t add_storages(std::span<const Storage> storages, Needs& needs) {
  std::size_t bytes = 0;
  for (const Storage& s : storages) {
    bytes += s.stored_type().bytes() + (s.layout.plain() ? 0 : s.type.bytes());
    add_value(needs, s.type, fmt::format("\"{}\", a {}", s.path, name_of(s.kind)));
  }
  return bytes;
}

}  // namespace

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

namespace {

/// Storages of so many bytes are initialised by one thread: that takes it some milliseconds.
constexpr std::size_t kBytesOfOne = std::size_t{8} << 20;

/// Writes the initial values of all storages, on so many threads, the largest first: each takes the
/// next one when it is through.
void initialise_all(Memory& memory, std::uint64_t seed, int threads) {
  std::size_t bytes = 0;
  for (const Storage& s : memory.storages) bytes += s.type.bytes();
  if (bytes <= kBytesOfOne) threads = 1;
  std::vector<std::size_t> order(memory.storages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t storage) {
    return memory.storages[storage].type.bytes();
  });
  std::atomic<std::size_t> next = 0;
  at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) {
    for (std::size_t i = next++; i < order.size(); i = next++) {
      initialise(memory.storages[order[i]], seed, memory.plain(order[i]).data());
      memory.keep(order[i]);
    }
  });
}

}  // namespace

Memory make_memory(std::span<const ir::Graph* const> declared, std::vector<Storage> storages,
                   std::uint64_t seed, int threads) {
  Memory memory;
  memory.storages = std::move(storages);
  for (const Storage& s : memory.storages) {
    memory.storage_blocks.emplace_back(s.stored_type().bytes());
    memory.plain_blocks.push_back(s.layout.plain() ? Block() : Block(s.type.bytes()));
  }
  initialise_all(memory, seed, threads);
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

Needs declared_needs(std::span<const ir::Graph* const> graphs) {
  Needs needs;
  std::vector<Storage> storages;
  for (const ir::Graph* graph : graphs) {
    for (const Storage& s : graph->storages()) {
      const bool known = std::ranges::find(storages, s.path, &Storage::path) != storages.end();
      if (!known) storages.push_back(s);
    }
  }
  needs.parts.push_back({"storages", add_storages(storages, needs)});
  needs.parts.push_back({"inputs", add_inputs(graphs, needs)});
  return needs;
}

Needs biggest_value(const ir::Graph& graph) {
  Needs needs;
  for (const Node& node : graph.nodes()) {
    if (!has_kernel(graph, node)) continue;
    add_value(needs, node.types[0], fmt::format("\"{}\"", node.path));
  }
  const auto biggest = std::ranges::max_element(needs.values, {}, &Needs::Part::bytes);
  const std::size_t bytes = biggest == needs.values.end() ? 0 : biggest->bytes;
  needs.parts.push_back({"its biggest value alone", bytes});
  return needs;
}

Needs needs_of(std::span<const ir::Graph* const> graphs, std::span<const Storage> storages,
               std::span<const Plan> plans, const Backend& backend) {
  Needs inputs;
  const std::size_t bytes = add_inputs(graphs, inputs);
  Needs needs = backend.host_needs(plans, bytes);
  needs.parts.push_back({"storages", add_storages(storages, needs)});
  needs.parts.push_back({"inputs", bytes});
  needs.values.insert(needs.values.end(), inputs.values.begin(), inputs.values.end());
  return needs;
}

}  // namespace metronome::executor::compile
