#include "graph/check/check_lives.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/ir/structural.h"

namespace metronome::check {

ValueLives::ValueLives(const ir::Graph& graph, const plan::Schedule& schedule) : graph_(graph) {
  std::vector<int> step_of(graph.nodes().size());
  for (std::size_t step = 0; step < schedule.order.size(); ++step) {
    step_of[schedule.order[step]] = static_cast<int>(step);
  }
  find_views(step_of);
  find_reads(step_of);
}

void ValueLives::find_views(const std::vector<int>& step_of) {
  for (std::size_t index = 0; index < step_of.size(); ++index) {
    const Node& node = graph_.nodes()[index];
    const auto alias = graph_.alias(node);
    for (std::size_t output = 0; output < node.types.size(); ++output) {
      const ValueId id{static_cast<std::int32_t>(index), static_cast<std::int32_t>(output)};
      ValueLife& life = lives_[id];
      life.root = id;
      life.made = life.last = step_of[index];
      if (alias && alias->output == id.output) {
        const ValueLife& viewed = lives_.at(node.inputs[alias->input]);
        life.root = viewed.root;
        life.offset = viewed.offset + alias->offset;
        life.written = false;
      } else if (const Read* read = node.op->as<Read>()) {
        life.root = old_values_.try_emplace(read->storage, id).first->second;
        life.written = false;
        life.last = -1;
      } else if (node.op->as<Input>() != nullptr) {
        life.written = false;
        life.last = -1;
      }
    }
  }
}

/// Only kernels read: an input, a storage's old value or a view needs no one to make it.
void ValueLives::find_reads(const std::vector<int>& step_of) {
  for (std::size_t index = 0; index < step_of.size(); ++index) {
    const Node& node = graph_.nodes()[index];
    bool kernel = false;
    for (std::size_t output = 0; output < node.types.size(); ++output) {
      kernel |=
          lives_.at({static_cast<std::int32_t>(index), static_cast<std::int32_t>(output)}).written;
    }
    if (!kernel) continue;
    for (ValueId operand : operands(node)) read_at(operand, step_of[index]);
  }
  const int end = static_cast<int>(step_of.size());
  for (const Assignment& assignment : graph_.assignments()) read_at(assignment.value, end);
  for (const Readable& readable : graph_.readables()) {
    if (readable.value.present()) read_at(readable.value, end);
  }
}

void ValueLives::read_at(ValueId id, int step) {
  ValueLife& life = lives_.at(lives_.at(id).root);
  life.read = true;
  life.last = std::max(life.last, step);
}

std::vector<ValueId> ValueLives::operands(const Node& node) {
  std::vector<ValueId> ids = node.inputs;
  if (node.guard.present()) ids.push_back(node.guard);
  return ids;
}

std::string ValueLives::name(const ir::Graph& graph, ValueId id) {
  const Node& node = graph.node(id);
  std::string text = fmt::format("{} \"{}\"", to_string(graph.type(id)), node.path);
  if (node.types.size() > 1) text += fmt::format(" output {}", id.output);
  return text;
}

std::string ValueLives::life(ValueId id) const {
  const ValueLife& life = lives_.at(id);
  return fmt::format("{} (steps {} to {})", name(graph_, id), life.made, life.last);
}

}  // namespace metronome::check
