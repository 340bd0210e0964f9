#include "executor/cpu/cpu_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/ir/structural.h"
#include "ops/kernel/blame.h"

namespace metronome::executor::cpu {

/// The tables of one plan, and the findings of the step that runs.
struct CpuWatch::State {
  struct Source {
    const std::byte* data;
    Type type;
  };

  std::vector<std::vector<int>> makers;  // [node]
  std::vector<NonFiniteKinds> met;       // [node]
  std::vector<NonFiniteKinds> held;      // [source]
  std::vector<std::pair<int, Source>> sources;

  static bool has(const NonFiniteKinds& found, int k) {
    return k == 0 ? found.nan : found.infinity;
  }
};

CpuWatch::CpuWatch(const Plan& plan, const Memory& memory, const Locator& locate, FaultSlot& faults,
                   std::size_t base)
    : plan_(plan),
      locate_(locate),
      fault_{&faults, 0},
      base_(base),
      state_(std::make_shared<State>()) {
  const ir::Graph& graph = plan.graph;
  state_->makers = makers_of(graph, memory);
  state_->met.resize(graph.nodes().size());
  state_->held.resize(source_count(memory));
  state_->held[kNanConstant].nan = true;
  state_->held[kInfiniteConstant].infinity = true;
  const std::vector<std::size_t> storages = memory.storages_of(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    int source = -1;
    if (const Input* input = node.op->as<Input>()) {
      source = source_of_input(memory.find(*input));
    } else if (const Read* read = node.op->as<Read>()) {
      source = source_of_storage(storages[read->storage.index], memory);
    }
    if (source < 0 || !is_floating(node.types[0].element)) continue;
    state_->sources.push_back({source, {locate_({i, 0}), node.types[0]}});
  }
}

CpuKernel CpuWatch::begin() const {
  return CpuKernel([state = state_] {
    std::fill(state->met.begin(), state->met.end(), NonFiniteKinds{});
    for (const auto& [source, tensor] : state->sources) {
      state->held[source] = non_finite_in(tensor.data, tensor.type);
    }
  });
}

CpuKernel CpuWatch::after(std::int32_t index) const {
  if (!makes_numbers(plan_.graph, index)) return CpuKernel();
  const Node& node = plan_.graph.nodes()[index];
  std::vector<State::Source> made;
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    const std::byte* data = locate_({index, static_cast<std::int32_t>(k)});
    if (data == nullptr || !is_floating(node.types[k].element)) continue;
    made.push_back({data, node.types[k]});
  }
  CpuFault fault = fault_;
  fault.place = fault_place(base_ + index, FaultKind::number);
  return CpuKernel([state = state_, made, index, fault] {
    NonFiniteKinds found;
    for (const State::Source& tensor : made) {
      const NonFiniteKinds here = non_finite_in(tensor.data, tensor.type);
      found = {found.nan || here.nan, found.infinity || here.infinity};
    }
    if (found == NonFiniteKinds{}) return;
    state->met[index] = found;
    const std::vector<int>& makers = state->makers[index];
    const int value = blame::of(
        found.nan, makers.data(), static_cast<int>(makers.size()),
        [&](int node, int k) { return State::has(state->met[node], k); },
        [&](int source, int k) { return State::has(state->held[source], k); });
    if (value != blame::kBlameless) fault.report(value);
  });
}

}  // namespace metronome::executor::cpu
