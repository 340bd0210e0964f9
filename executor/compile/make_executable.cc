#include "executor/compile/make_executable.h"

#include <algorithm>
#include <utility>

#include "graph/ir/structural.h"

namespace metronome::executor::compile {
namespace {

/// What a plan touches, in the numbers of the first graph.
Executable::Impl::Planned planned(const Plan& plan, const Executable::Impl& impl) {
  Executable::Impl::Planned result{plan.mode, plan.shape, {}, {}};
  for (const DeclaredInput& input : inputs_of(impl.first())) {
    const std::string& name = input.name;
    result.inputs.push_back(std::ranges::any_of(plan.graph.nodes(), [&](const Node& n) {
      const Input* i = n.op->as<Input>();
      return i != nullptr && i->input == name;
    }));
  }
  for (const std::size_t readable : impl.declared[plan.shape].readables) {
    result.readables.push_back(plan.graph.readables()[readable].value.present());
  }
  return result;
}

/// A graph as the executable keeps it; `first` gives the numbers of inputs and readables.
Executable::Impl::DeclaredGraph kept(const Graph& declared, const ir::Graph& first) {
  const ir::Graph& graph = declared.data();
  Executable::Impl::DeclaredGraph result{graph, declared.identity(), {}, {}, {}};
  const std::vector<DeclaredInput> inputs = inputs_of(graph), numbered = inputs_of(first);
  result.input_at.resize(graph.nodes().size(), -1);
  for (std::size_t i = 0; i < numbered.size(); ++i) {
    const auto own = std::ranges::find(inputs, numbered[i].name, &DeclaredInput::name);
    result.input_at[own->value.node] = static_cast<std::int32_t>(i);
  }
  const std::vector<Readable>& readables = graph.readables();
  for (std::size_t i = 0; i < first.readables().size(); ++i) {
    const std::string& name = first.readables()[i].name;
    const bool same_place = i < readables.size() && readables[i].name == name;
    const auto found = std::ranges::find(readables, name, &Readable::name);
    result.readables.push_back(same_place ? i
                                          : static_cast<std::size_t>(found - readables.begin()));
  }
  return result;
}

}  // namespace

std::unique_ptr<Executable::Impl> make_executable(std::span<const Graph* const> graphs,
                                                  const BatchShapes& shapes,
                                                  std::span<const Plan> plans,
                                                  const CompileOptions& options, int slots) {
  auto impl = std::make_unique<Executable::Impl>();
  for (const Graph* graph : graphs) impl->declared.push_back(kept(*graph, *graphs[0]));
  impl->shapes = shapes;
  impl->options = options;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    impl->plans.push_back(planned(plans[i], *impl));
    impl->declared[plans[i].shape].plans[static_cast<std::size_t>(plans[i].mode)] = {
        static_cast<std::int32_t>(i)};
  }
  impl->computed_by.resize(impl->first().readables().size());
  impl->recent.resize(static_cast<std::size_t>(slots));
  return impl;
}

}  // namespace metronome::executor::compile
