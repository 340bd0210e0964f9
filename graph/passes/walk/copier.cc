#include "graph/passes/walk/copier.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/ir/error.h"

namespace metronome::passes {

Copier::Copier(const ir::Graph& from) : from(from), to(ir::Graph::like(from)) {
  first_.reserve(from.nodes().size());
  std::size_t outputs = 0;
  for (const Node& node : from.nodes()) {
    first_.push_back(outputs);
    outputs += node.types.size();
  }
  now_.resize(outputs);
}

bool Copier::has(ValueId old) const { return old.present() && now_[place_of(old)].present(); }

ValueId Copier::at(ValueId old) const {
  if (!has(old)) {
    throw InternalError(
        fmt::format("a pass dropped \"{}\", which is still read", from.node(old).path));
  }
  return now_[place_of(old)];
}

Values Copier::inputs_of(const Node& node) {
  Values inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId id : node.inputs) inputs.push_back(emitter.value(at(id)));
  return inputs;
}

ValueId Copier::guard_of(const Node& node) const {
  return node.guard.present() ? at(node.guard) : ValueId{};
}

void Copier::add_waits(const Node& node, std::vector<std::int32_t>& waits) const {
  for (const std::int32_t old : node.waits_for) {
    const std::size_t known = waits.size();
    if (const auto found = joined_.find(old); found != joined_.end())
      waits.push_back(found->second);
    const auto outputs = static_cast<std::int32_t>(from.nodes()[old].types.size());
    for (std::int32_t k = 0; k < outputs; ++k) {
      if (has({old, k})) waits.push_back(at({old, k}).node);
    }
    if (waits.size() == known) add_waits(from.nodes()[old], waits);
  }
}

std::vector<std::int32_t> Copier::waits_of(const Node& node) const {
  std::vector<std::int32_t> waits;
  add_waits(node, waits);
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  return waits;
}

std::vector<std::int32_t> Copier::waits_of(std::span<const std::int32_t> nodes) const {
  Node all;
  for (const std::int32_t n : nodes) {
    const std::vector<std::int32_t>& waits = from.nodes()[n].waits_for;
    all.waits_for.insert(all.waits_for.end(), waits.begin(), waits.end());
  }
  return waits_of(all);
}

void Copier::copy(std::int32_t index) {
  place(index, to.append_typed(rewire(from.nodes()[index])));
}

void Copier::append(std::int32_t index, Node node) {
  place(index, to.append(rewire(std::move(node))));
}

Node Copier::rewire(Node node) const {
  for (ValueId& input : node.inputs) input = at(input);
  node.guard = guard_of(node);
  if (!node.waits_for.empty()) node.waits_for = waits_of(node);
  return node;
}

void Copier::place(std::int32_t index, ValueId made) {
  const auto outputs = static_cast<std::int32_t>(from.nodes()[index].types.size());
  for (std::int32_t k = 0; k < outputs; ++k) now_[place_of({index, k})] = {made.node, k};
}

void Copier::replace(std::int32_t index, const Values& outputs) {
  for (std::size_t k = 0; k < from.nodes()[index].types.size() && k < outputs.size(); ++k) {
    replace({index, static_cast<std::int32_t>(k)}, outputs[k].id());
  }
}

void Copier::replace(ValueId old, ValueId now) {
  if (to.type(now) != from.type(old)) {
    throw InternalError(fmt::format("\"{}\" of type {} was replaced by {}", from.node(old).path,
                                    to_string(from.type(old)), to_string(to.type(now))));
  }
  now_[place_of(old)] = now;
}

ir::Graph Copier::finish() {
  for (std::size_t k = 0; k < from.objectives().size(); ++k) {
    to.set_loss(k, at(from.objectives()[k].loss));
    if (const ValueId when = from.objectives()[k].when; when.present()) to.set_when(k, at(when));
    if (const ValueId weight = from.objectives()[k].weight; weight.present()) {
      to.set_weight(k, at(weight));
    }
    std::vector<ParameterGradient> gradients = from.objectives()[k].gradients;
    for (ParameterGradient& g : gradients) g.value = at(g.value);
    to.set_gradients(k, std::move(gradients));
  }
  for (std::size_t i = 0; i < from.readables().size(); ++i) {
    const ValueId value = from.readables()[i].value;
    if (has(value)) to.set_readable(i, at(value));
  }
  std::vector<Assignment> assignments = from.assignments();
  for (Assignment& a : assignments) a.value = at(a.value);
  to.set_assignments(std::move(assignments));
  return std::move(to);
}

}  // namespace metronome::passes
