// A valid plan for tests to spoil.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/plan/memory_plan.h"
#include "graph/plan/planner.h"
#include "graph/plan/schedules.h"
#include "tests/graph/check_bound.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing {

/// A graph with the order as declared and its plan.
struct Planned {
  explicit Planned(Graph g, std::vector<std::size_t> scratch = {}, bool skips = false)
      : graph(std::move(g)), scratch(std::move(scratch)) {
    settings.skips = skips;
    for (std::size_t i = 0; i < graph.data().nodes().size(); ++i) {
      order.order.push_back(static_cast<std::int32_t>(i));
    }
    order.in_place = plan::schedule(graph, settings).in_place;
    replan();
  }
  void replan() {
    plan = plan::plan_memory(graph, order, scratch, settings);
    REQUIRE(check() == "no fault");
  }
  std::string check() const {
    return testing::check_plan(graph, order, scratch, plan, settings).value_or("no fault");
  }
  plan::Place& place(Value value) { return plan.places[value.id().node][value.id().output]; }

  Graph graph;
  std::vector<std::size_t> scratch;
  Settings settings;
  plan::Schedule order;
  plan::MemoryPlan plan;
};

}  // namespace metronome::testing
