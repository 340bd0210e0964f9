#include "executor/compile/make_impl.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "graph/ir/structural.h"
#include "ops/language/init.h"

namespace metronome::executor::compile {
namespace {

/// Returns the inputs that a plan reads and the readables that it computes.
Executable::Impl::PlanInterface interface_of(const Plan& plan, const Executable::Impl& impl) {
  Executable::Impl::PlanInterface result{plan.mode, plan.shape, {}, {}};
  for (const std::string& name : impl.inputs) {
    result.inputs.push_back(std::ranges::any_of(plan.graph.nodes(), [&](const Node& n) {
      const Input* i = n.op->as<Input>();
      return i != nullptr && i->input == name;
    }));
  }
  for (const std::size_t readable : impl.declared[plan.shape].readables) {
    result.readables.push_back(readable != Executable::Impl::kNone &&
                               plan.graph.readables()[readable].value.present());
  }
  return result;
}

/// The place of a name, which joins the others if it is new.
std::size_t place_of(std::vector<std::string>& names, const std::string& name) {
  const auto place = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  if (place == names.size()) names.push_back(name);
  return place;
}

/// A graph as the executable keeps it, which gains the names of its inputs and readables.
Executable::Impl::DeclaredGraph keep_graph(const Graph& declared, Executable::Impl& impl) {
  const ir::Graph& graph = declared.data();
  Executable::Impl::DeclaredGraph result{graph, declared.identity(), {}, {}, {}, {}};
  result.input_at.resize(graph.nodes().size(), -1);
  for (const DeclaredInput& input : inputs_of(graph)) {
    result.input_at[input.value.node] =
        static_cast<std::int32_t>(place_of(impl.inputs, input.name));
  }
  for (std::size_t i = 0; i < graph.readables().size(); ++i) {
    const std::size_t place = place_of(impl.readables, graph.readables()[i].name);
    result.readables.resize(impl.readables.size(), Executable::Impl::kNone);
    result.readables[place] = i;
  }
  return result;
}

}  // namespace

std::unique_ptr<Executable::Impl> make_impl(std::span<const GraphFor> graphs,
                                            const BatchShapes& shapes, std::span<const Plan> plans,
                                            const CompileOptions& options, int slots) {
  auto impl = std::make_unique<Executable::Impl>();
  for (const GraphFor& part : graphs) impl->declared.push_back(keep_graph(*part.graph, *impl));
  for (Executable::Impl::DeclaredGraph& d : impl->declared) {
    d.readables.resize(impl->readables.size(), Executable::Impl::kNone);
  }
  impl->shapes = shapes;
  impl->options = options;
  impl->averages = {""};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    impl->plans.push_back(interface_of(plans[i], *impl));
    const Executable::Impl::Kind kind{plans[i].mode, place_of(impl->averages, plans[i].average)};
    std::vector<executor::PlanId>& of_graph = impl->declared[plans[i].shape].plans;
    of_graph.resize(std::max(of_graph.size(), kind.index() + 1));
    of_graph[kind.index()] = {static_cast<std::int32_t>(i)};
  }
  for (Executable::Impl::DeclaredGraph& d : impl->declared) {
    d.plans.resize(impl->averages.size() * kModes);
  }
  impl->computed_by.resize(impl->readables.size());
  impl->recent.resize(static_cast<std::size_t>(slots));
  return impl;
}

// ---- memory -------------------------------------------------------------------------------

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
