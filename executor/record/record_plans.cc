#include "executor/record/record_plans.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/engine/plan_nodes.h"
#include "graph/ir/structural.h"

namespace metronome::executor {
namespace {

RecordedId id_of(ValueId id) {
  return id.present() ? RecordedId{id.node, id.output} : RecordedId{};
}

/// Walks over one plan in the order in which its step runs.
class PlanRecorder {
 public:
  explicit PlanRecorder(const Plan& plan) : plan_(plan), graph_(plan.graph) {}

  RecordedPlan run() {
    const auto count = static_cast<std::int32_t>(graph_.nodes().size());
    for (std::int32_t i = 0; i < count; ++i) recorded_.nodes.push_back(node_of(i));
    const std::vector<std::int32_t>& order = plan_.schedule.order;
    for (std::size_t place = 0; place < order.size(); ++place) {
      recorded_.nodes[order[place]].place = static_cast<std::int32_t>(place);
    }
    find_lives();
    find_peak();
    const auto assignments = graph_.assignments();
    for (std::size_t i = 0; i < assignments.size(); ++i) {
      recorded_.assignments.push_back({graph_.storage(assignments[i].storage).path,
                                       id_of(assignments[i].value), plan_.schedule.in_place[i]});
    }
    return std::move(recorded_);
  }

 private:
  RecordedNode node_of(std::int32_t index) const {
    const Node& node = graph_.nodes()[index];
    RecordedNode recorded;
    const KernelTime kernel = kernel_of(graph_, node);
    recorded.op = kernel.op;
    recorded.attributes = node.op->attributes();
    recorded.path = node.path;
    recorded.line = to_string(node.line);
    recorded.phase = name_of(kernel.phase);
    for (const ValueId id : node.inputs) recorded.inputs.push_back(id_of(id));
    recorded.guard = id_of(node.guard);
    recorded.waits_for = node.waits_for;
    for (int output = 0; output < static_cast<int>(node.types.size()); ++output) {
      recorded.values.push_back(value_of({index, output}));
    }
    if (!has_kernel(graph_, node)) return recorded;
    recorded.kernel = name_of(plan_.choices[index]);
    recorded.threads = plan_.choices[index].threads;
    recorded.bytes = kernel.bytes;
    recorded.flops = kernel.flops;
    recorded.scratch_bytes = plan_.scratch_bytes[index];
    if (recorded.scratch_bytes > 0) recorded.scratch_offset = plan_.memory.scratch_offsets[index];
    return recorded;
  }

  RecordedValue value_of(ValueId id) const {
    const Type& type = graph_.type(id);
    const plan::Place& place = plan_.memory.places[id.node][id.output];
    RecordedValue value{.type = to_string(type), .bytes = type.bytes()};
    value.offset = place.offset;
    value.is_view = view_of(graph_, id).has_value();
    switch (place.in) {
      case plan::Place::Kind::none:
        value.in = "none";
        break;
      case plan::Place::Kind::arena:
        value.in = "arena";
        break;
      case plan::Place::Kind::input:
        value.in = "input";
        value.of = graph_.nodes()[place.index].op->as<Input>()->input;
        break;
      case plan::Place::Kind::storage:
        value.in = "storage";
        value.of = graph_.storages()[place.index].path;
        break;
      case plan::Place::Kind::readable:
        value.in = "readable";
        value.of = graph_.readables()[place.index].name;
        break;
    }
    return value;
  }

  RecordedValue& at(ValueId id) { return recorded_.nodes[id.node].values[id.output]; }
  /// The value whose bytes it shows.
  ValueId root_of(ValueId id) const {
    while (const auto view = view_of(graph_, id)) id = view->of;
    return id;
  }

  void find_lives() {
    const auto read = [&](ValueId id, std::int32_t place) {
      RecordedValue& root = at(root_of(id));
      if (root.begin >= 0) root.end = std::max(root.end, place);
    };
    for (const std::int32_t i : plan_.schedule.order) {
      const std::int32_t place = recorded_.nodes[i].place;
      for (RecordedValue& value : recorded_.nodes[i].values) {
        if (value.in == "arena" && !value.is_view) value.begin = value.end = place;
      }
      for (const ValueId id : graph_.nodes()[i].inputs) read(id, place);
      if (graph_.nodes()[i].guard.present()) read(graph_.nodes()[i].guard, place);
    }
    const auto last = static_cast<std::int32_t>(plan_.schedule.order.size()) - 1;
    for (const Assignment& assignment : graph_.assignments()) read(assignment.value, last);
    for (const Readable& readable : graph_.readables()) {
      if (readable.value.present()) read(readable.value, last);
    }
    for (const std::int32_t i : plan_.schedule.order) {
      for (const Inside& inside : graph_.insides(graph_.nodes()[i])) hold_around(i, inside);
    }
  }

  /// A result in which an operand was made where it would be copied to is held as long as that one.
  void hold_around(std::int32_t node, const Inside& inside) {
    const ValueId id = graph_.nodes()[node].inputs[inside.input];
    const RecordedValue &operand = at(id), &root = at(root_of(id));
    RecordedValue& around = recorded_.nodes[node].values[inside.output];
    if (root.begin < 0 || around.begin < 0) return;
    if (operand.offset != around.offset + inside.offset) return;
    around.begin = std::min(around.begin, root.begin);
    around.end = std::max(around.end, root.end);
  }

  /// The place at which all values are held that the planner found at the fullest moment, and most
  /// scratch.
  void find_peak() {
    std::int32_t begin = 0, end = static_cast<std::int32_t>(plan_.schedule.order.size()) - 1;
    for (const plan::Holder& holder : plan_.memory.holders) {
      const RecordedValue& value = at(root_of(holder.value));
      begin = std::max(begin, value.begin);
      end = std::min(end, value.end);
    }
    std::size_t most = 0;
    recorded_.peak = plan_.memory.holders.empty() ? -1 : begin;
    for (std::int32_t place = begin; place <= end; ++place) {
      const std::size_t scratch = plan_.scratch_bytes[plan_.schedule.order[place]];
      if (scratch <= most) continue;
      most = scratch;
      recorded_.peak = place;
    }
  }

  const Plan& plan_;
  const ir::Graph& graph_;
  RecordedPlan recorded_;
};

}  // namespace

PlanRecord record_of(const Report& report, std::span<const Plan* const> plans) {
  PlanRecord record{.report = report};
  std::set<std::string> known;
  for (const Plan* plan : plans) {
    record.plans.push_back(PlanRecorder(*plan).run());
    for (const Storage& storage : plan->graph.storages()) {
      if (!known.insert(storage.path).second) continue;
      record.storages.push_back({.path = storage.path,
                                 .type = to_string(storage.type),
                                 .kind = std::string(name_of(storage.kind)),
                                 .line = to_string(storage.line),
                                 .bytes = storage.stored_type().bytes(),
                                 .trainable = storage.trainable});
    }
  }
  return record;
}

}  // namespace metronome::executor
