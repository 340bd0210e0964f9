#include "graph/plan/print_plan.h"

#include <fmt/format.h>

namespace metronome::plan {
namespace {

std::string where(const ir::Graph& graph, const Place& place, std::size_t bytes) {
  const std::string range = fmt::format("[{}, {})", place.offset, place.offset + bytes);
  switch (place.in) {
    case Place::Kind::none:
      return "nowhere";
    case Place::Kind::arena:
      return "arena " + range;
    case Place::Kind::input:
      return fmt::format("input {} {}", graph.nodes()[place.index].path, range);
    case Place::Kind::storage:
      return fmt::format("storage {} {}", graph.storage({place.index}).path, range);
    case Place::Kind::readable:
      return fmt::format("readable {} {}", graph.readables()[place.index].name, range);
  }
  return "unknown";
}

}  // namespace

std::string print(const ir::Graph& graph, const Schedule& schedule,
                  const std::vector<std::size_t>& scratch_bytes, const MemoryPlan& plan) {
  std::string text =
      fmt::format("arena {} bytes, at least {}\n", plan.arena_bytes, plan.lower_bound);
  for (std::size_t step = 0; step < schedule.order.size(); ++step) {
    const std::int32_t index = schedule.order[step];
    const Node& node = graph.nodes()[index];
    text += fmt::format("  {}  {}", step, node.path);
    for (std::size_t output = 0; output < node.types.size(); ++output) {
      text += fmt::format("{}{}", output == 0 ? "  " : ", ",
                          where(graph, plan.places[index][output], node.types[output].bytes()));
    }
    if (!scratch_bytes.empty() && scratch_bytes[index] > 0) {
      const Place scratch{Place::Kind::arena, -1, plan.scratch_offsets[index]};
      text += fmt::format(", scratch {}", where(graph, scratch, scratch_bytes[index]));
    }
    text += '\n';
  }
  for (std::size_t i = 0; i < schedule.in_place.size(); ++i) {
    const Assignment& assignment = graph.assignments()[i];
    text +=
        fmt::format("  {} := {}{}\n", graph.storage(assignment.storage).path,
                    graph.node(assignment.value).path, schedule.in_place[i] ? ", in place" : "");
  }
  return text;
}

}  // namespace metronome::plan
