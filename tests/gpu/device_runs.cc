#include "tests/gpu/device_runs.h"

#include <fmt/format.h>

#include <stdexcept>

#include "graph/ir/structural.h"

namespace metronome {
namespace {

Fillings filling(Element element) {
  if (element == bool_) return {.kind = Fillings::Kind::booleans};
  return {.kind = is_floating(element) ? Fillings::Kind::uniform : Fillings::Kind::integers};
}

}  // namespace

Feeds numbers_for(const ir::Graph& graph) {
  Feeds feeds;
  Numbers numbers;
  for (const Node& node : graph.nodes()) {
    const Input* input = node.op->as<Input>();
    const Read* read = node.op->as<Read>();
    if (input == nullptr && read == nullptr) continue;
    const Type& type = node.types[0];
    feeds[input != nullptr ? input->input : graph.storage(read->storage).path] =
        filled(type, filling(type.element), numbers);
  }
  return feeds;
}

std::vector<ValueId> results_of(const ir::Graph& graph) {
  std::vector<ValueId> values;
  for (const Readable& r : graph.readables()) {
    if (r.value.present()) values.push_back(r.value);
  }
  for (const Assignment& a : graph.assignments()) values.push_back(a.value);
  return values;
}

bool compute(DevicePools pools) { return pools[0]->driver().computes(); }

Tensors run_on(DevicePools pools, const ir::Graph& graph, const Feeds& feeds,
               const DeviceRun& run) {
  Tensors first;
  for (std::size_t p = 0; p < pools.size(); ++p) {
    DeviceInterpreter device(graph, *pools[p], run.views);
    for (const auto& [name, tensor] : feeds) device.set(name, tensor);
    device.run(run.choose);
    Tensors found;
    for (const ValueId id : run.values) found.push_back(device.tensor(id));
    for (std::size_t k = 0; k < first.size(); ++k) {
      if (same_bits(first[k], found[k])) continue;
      throw std::runtime_error(fmt::format("result {} has other bits in run {}", k, p + 1));
    }
    if (p == 0) first = std::move(found);
    if (run.in_place) device.check_in_place(run.choose);
  }
  return first;
}

Trouble other_bits(DevicePools pools, const ir::Graph& before, const ir::Graph& after,
                   const Feeds& feeds) {
  for (const bool views : {false, true}) {
    const Tensors expected = run_on(pools, before, feeds, {results_of(before), views});
    const Tensors found =
        run_on(pools, after, feeds, {results_of(after), views, /*in_place=*/true});
    if (found.size() != expected.size()) return "it has other results";
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (same_bits(found[k], expected[k])) continue;
      return fmt::format("result {} has other bits{}", k, views ? " (views)" : "");
    }
  }
  return std::nullopt;
}

}  // namespace metronome
