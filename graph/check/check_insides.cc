#include "graph/check/check_insides.h"

#include <algorithm>

namespace metronome::check {
namespace {

/// Whether `part`, a root that is all of an operand, lies at `offset` of `whole`, and may.
bool lies_inside(const ir::Graph& graph, const ValueLives& lives, const plan::MemoryPlan& plan,
                 ValueId operand, ValueId whole, std::size_t offset) {
  const ValueId part = lives[operand].root;
  const std::size_t bytes = graph.type(part).bytes();
  plan::Place place = plan.places[whole.node][whole.output];
  place.offset += offset;
  return place.in != plan::Place::Kind::none && bytes > 0 && graph.type(operand).bytes() == bytes &&
         offset + bytes <= graph.type(whole).bytes() && lives[part].written &&
         part.node != whole.node && graph.node(part).guard == graph.node(whole).guard &&
         plan.places[part.node][part.output] == place;
}

}  // namespace

Insides::Insides(const ir::Graph& graph, const ValueLives& lives, const plan::MemoryPlan& plan,
                 const std::function<bool(ValueId)>& fixed)
    : lives_(&lives) {
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(graph.nodes().size()); ++index) {
    const Node& node = graph.nodes()[index];
    for (const auto& [output, input, offset] : graph.insides(node)) {
      const ValueId whole = {index, output}, operand = node.inputs[input];
      if (!fixed(lives[operand].root) && lies_inside(graph, lives, plan, operand, whole, offset)) {
        wholes_.emplace(lives[operand].root, whole);
      }
    }
  }
  for (const auto& [part, of] : wholes_) {
    for (auto at = wholes_.find(part); at != wholes_.end(); at = wholes_.find(at->second)) {
      ValueLife& whole = held_.try_emplace(at->second, lives[at->second]).first->second;
      whole.made = std::min(whole.made, lives[part].made);
      whole.last = std::max(whole.last, lives[part].last);
    }
  }
}

bool Insides::contains(ValueId part, ValueId whole) const {
  const auto found = wholes_.find(part);
  return found != wholes_.end() && found->second == whole;
}

const ValueLife& Insides::life_of(ValueId id) const {
  const auto found = held_.find(id);
  return found == held_.end() ? (*lives_)[id] : found->second;
}

}  // namespace metronome::check
