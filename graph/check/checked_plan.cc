#include "graph/check/checked_plan.h"

#include <fmt/format.h>

namespace metronome::check {

CheckedPlan::CheckedPlan(const ir::Graph& g, const plan::Schedule& s, const Sizes& scratch_bytes,
                         const plan::MemoryPlan& p, const Settings& settings)
    : graph(g),
      schedule(s),
      scratch(scratch_bytes),
      plan(p),
      alignment(settings.alignment),
      lives(g, s),
      guards(g, settings.skips) {}

std::int32_t CheckedPlan::outputs(std::int32_t node) const {
  return static_cast<std::int32_t>(graph.nodes()[node].types.size());
}

bool CheckedPlan::is_saved(ValueId id) const {
  return id.output >= outputs(id.node) - graph.node(id).op->saved();
}

bool CheckedPlan::exclude(std::int32_t a, std::int32_t b) const {
  return guards.exclude(guards.of(a), guards.of(b));
}

std::string CheckedPlan::name(const plan::Place& place) const {
  if (place.in == plan::Place::Kind::none) return "no place";
  return fmt::format("{} byte {}", memory_name(place), place.offset);
}

std::string CheckedPlan::memory_name(const plan::Place& place) const {
  switch (place.in) {
    case plan::Place::Kind::none:
      break;
    case plan::Place::Kind::arena:
      return "arena";
    case plan::Place::Kind::input:
      return fmt::format("input %{}", place.index);
    case plan::Place::Kind::storage:
      return fmt::format("storage \"{}\"", graph.storage({place.index}).path);
    case plan::Place::Kind::readable:
      return fmt::format("readable \"{}\"", graph.readables()[place.index].name);
  }
  return "no";
}

std::string CheckedPlan::scratch_name(std::int32_t node) const {
  return fmt::format("scratch of \"{}\"", graph.nodes()[node].path);
}

}  // namespace metronome::check
