// A few hundred random graphs: their plans pass the check, and a replay in planned memory reads the
// same everywhere, and leaves the same in storages and readable values, as one in which every value
// has memory of its own; whatever the guards are, where there are any.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/check/verify.h"
#include "graph/plan/memory_plan.h"
#include "graph/plan/planner.h"
#include "graph/plan/schedules.h"
#include "graph/rules/alias.h"
#include "tests/graph/check_bound.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/setting.h"

namespace metronome::testing::random_plan_test {
namespace {

/// One number for each four bytes of memory, or for each smaller value.
using Words = std::vector<std::uint64_t>;

std::size_t words_of(const Type& type) { return (type.bytes() + 3) / 4; }

/// Computes one output of a node: every word depends on every word of every input.
Words computed(std::int32_t node, std::int32_t output, const std::vector<Words>& inputs,
               std::size_t size) {
  std::uint64_t seed = mix(static_cast<std::uint64_t>(node), static_cast<std::uint64_t>(output));
  for (const Words& words : inputs) {
    for (std::uint64_t word : words) seed = mix(seed, word);
  }
  Words result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = mix(seed, i);
  return result;
}

/// Returns the initial words of a storage or an input.
Words initial(const ir::Graph& graph, ValueId id) {
  return computed(-1 - id.node, 0, {}, words_of(graph.type(id)));
}

/// Memory of its own for every value.
struct FreshMemory {
  const ir::Graph& graph;
  std::map<ValueId, Words> values = {};

  Words read(ValueId id) {
    return values.contains(id) ? values[id] : values[id] = initial(graph, id);
  }
  void view(ValueId id, ValueId of, std::size_t offset) {
    const Words whole = read(of);
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(offset);
    values[id] = Words(begin, begin + static_cast<std::ptrdiff_t>(words_of(graph.type(id))));
  }
  void write(ValueId id, Words words) { values[id] = std::move(words); }
};

/// Memory as planned.
struct PlannedMemory {
  const ir::Graph& graph;
  const plan::MemoryPlan& plan;
  const std::vector<std::size_t>& scratch;
  std::map<std::pair<plan::Place::Kind, std::int32_t>, Words> memory = {};
  int inside = 0;  ///< operands that were made where they are stacked

  std::uint64_t* at(ValueId id) {
    const plan::Place& place = plan.places[id.node][id.output];
    Words& words = memory[{place.in, place.index}];
    const std::size_t end = place.offset / 4 + words_of(graph.type(id));
    if (words.size() < end) words.resize(end);
    return words.data() + place.offset / 4;
  }
  Words read(ValueId id) {
    const std::uint64_t* begin = at(id);
    return Words(begin, begin + words_of(graph.type(id)));
  }
  void write(ValueId id, const Words& words) {
    if (plan.places[id.node][id.output].in == plan::Place::Kind::none) return;
    std::copy(words.begin(), words.end(), at(id));
  }
  /// Copies operands that do not lie inside the result.
  void stack(ValueId id, const std::vector<ValueId>& operands) {
    std::size_t begin = 0;
    for (const ValueId operand : operands) {
      const Words words = read(operand);
      if (at(operand) != at(id) + begin) std::copy(words.begin(), words.end(), at(id) + begin);
      begin += words.size();
      inside += !words.empty() && at(operand) == at(id) + begin - words.size();
    }
  }
  void spoil_scratch(std::int32_t index) {
    Words& words = memory[{plan::Place::Kind::arena, -1}];
    const std::size_t begin = plan.scratch_offsets[index] / 4;
    const std::size_t end = begin + scratch[index] / 4;
    if (words.size() < end) words.resize(end);
    std::fill(words.begin() + static_cast<std::ptrdiff_t>(begin),
              words.begin() + static_cast<std::ptrdiff_t>(end), mix(begin, end));
  }
};

/// Replays both ways, skipping what the setting skips. True where every value that is read, and all
/// that outlives the step, is the same in both memories.
bool same_as_fresh(const ir::Graph& graph, const plan::Schedule& order,
                   const plan::MemoryPlan& plan, const std::vector<std::size_t>& scratch,
                   std::optional<std::uint64_t> number = {}, int* inside = nullptr) {
  const Setting setting{graph, number};
  FreshMemory fresh{graph};
  PlannedMemory planned{graph, plan, scratch};
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(graph.nodes().size()); ++index) {
    if (graph.nodes()[index].inputs.empty()) planned.write({index, 0}, initial(graph, {index, 0}));
  }
  bool same = true;
  for (const std::int32_t index : order.order) {
    const Node& node = graph.nodes()[index];
    if (node.inputs.empty() || !setting.holds(node.guard)) continue;
    planned.spoil_scratch(index);
    const Types types = graph.operands(node);
    if (const auto alias = node.op->ask<AliasRule>(types)) {
      fresh.view({index, 0}, node.inputs[0], alias->offset / 4);
      continue;
    }
    std::vector<ValueId> operands;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (setting.reads(node, k)) operands.push_back(node.inputs[k]);
    }
    if (node.guard.present()) operands.push_back(node.guard);
    std::vector<Words> inputs;
    for (const ValueId id : operands) {
      inputs.push_back(planned.read(id));
      same &= inputs.back() == fresh.read(id);
    }
    if (node.op->as<Stack>() != nullptr) {
      Words words;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        words.insert(words.end(), inputs[k].begin(), inputs[k].end());
      }
      planned.stack({index, 0}, node.inputs);
      fresh.write({index, 0}, std::move(words));
      continue;
    }
    for (std::int32_t output = 0; output < static_cast<std::int32_t>(node.types.size()); ++output) {
      const Words words = computed(index, output, inputs, words_of(node.types[output]));
      fresh.write({index, output}, words);
      planned.write({index, output}, words);
    }
  }
  for (const Readable& readable : graph.readables()) {
    same &= planned.read(readable.value) == fresh.read(readable.value);
  }
  for (const Assignment& assignment : graph.assignments()) {
    same &= planned.read(assignment.value) == fresh.read(assignment.value);
  }
  if (inside != nullptr) *inside += planned.inside;
  return same;
}

std::vector<std::size_t> random_scratch(RandomGraph& random, const ir::Graph& graph) {
  std::vector<std::size_t> scratch(graph.nodes().size());
  for (std::size_t& bytes : scratch) bytes = random.below(4) == 0 ? 4 * random.below(100) : 0;
  return scratch;
}

TEST_CASE("plans of random graphs are right, and the same every time") {
  Settings settings;
  double worst = 1, sum = 0;
  int at_bound = 0, in_place = 0, assignments = 0;
  constexpr int kGraphs = graphs(400);
  for (std::uint32_t seed = 0; seed < kGraphs; ++seed) {
    CAPTURE(seed);
    RandomGraph random(seed);
    const ir::Graph graph = random.make();
    CAPTURE(graph.print());
    std::vector<std::size_t> scratch(graph.nodes().size());
    if (seed % 2 == 1) scratch = random_scratch(random, graph);
    const plan::Schedule order = plan::schedule(graph, settings);
    const plan::MemoryPlan plan = plan::plan_memory(graph, order, scratch, settings);
    REQUIRE(testing::check_plan(graph, order, scratch, plan, settings).value_or("no fault") ==
            "no fault");
    REQUIRE(plan::schedule(graph, settings) == order);
    REQUIRE(plan::plan_memory(graph, order, scratch, settings) == plan);
    REQUIRE(plan.arena_bytes >= plan.lower_bound);
    if (seed % 2 == 0) REQUIRE(order.peak_bytes == static_cast<std::int64_t>(plan.lower_bound));
    CHECK(same_as_fresh(graph, order, plan, scratch));

    const double ratio = plan.lower_bound == 0 ? 1
                                               : static_cast<double>(plan.arena_bytes) /
                                                     static_cast<double>(plan.lower_bound);
    worst = std::max(worst, ratio);
    sum += ratio;
    at_bound += plan.arena_bytes == plan.lower_bound ? 1 : 0;
    for (bool made : order.in_place) in_place += made ? 1 : 0;
    assignments += static_cast<int>(order.in_place.size());
  }
  MESSAGE("plan / bound over ", kGraphs, " graphs: mean ", sum / kGraphs, ", worst ", worst, ", ",
          at_bound, " at the bound; ", in_place, " of ", assignments, " assignments in place");
  CHECK(worst <= 1.1);
  CHECK(in_place > assignments / 4);
}

constexpr std::uint64_t kSettings = 6;

TEST_CASE("plans of random guarded graphs are right, and share what no step has both of") {
  Settings apart, shared;
  shared.skips = true;
  double worst = 1, sum = 0, less = 0, bound_less = 0, worst_step = 1, step_less = 0;
  int at_bound = 0, smaller = 0, larger = 0;
  constexpr int kGraphs = graphs(120);
  for (std::uint32_t seed = 0; seed < kGraphs; ++seed) {
    CAPTURE(seed);
    RandomGraph random(seed, Guarding::yes);
    const ir::Graph graph = random.make();
    CAPTURE(graph.print());
    check::verify(graph, "random");
    std::vector<std::size_t> scratch(graph.nodes().size());
    if (seed % 2 == 1) scratch = random_scratch(random, graph);
    const plan::Schedule order = plan::schedule(graph, shared);
    const plan::MemoryPlan plan = plan::plan_memory(graph, order, scratch, shared);
    REQUIRE(testing::check_plan(graph, order, scratch, plan, shared).value_or("no fault") ==
            "no fault");
    REQUIRE(plan::plan_memory(graph, order, scratch, shared) == plan);
    REQUIRE(plan.arena_bytes >= plan.lower_bound);
    if (seed % 2 == 0) REQUIRE(order.peak_bytes == static_cast<std::int64_t>(plan.lower_bound));
    const plan::StepPlan step = plan::plan_step(graph, scratch, shared);
    REQUIRE(step.memory.lower_bound <= plan.lower_bound);
    REQUIRE(testing::check_plan(graph, step.schedule, scratch, step.memory, shared)
                .value_or("no fault") == "no fault");
    for (std::uint64_t setting = 0; setting < kSettings; ++setting) {
      CAPTURE(setting);
      REQUIRE(same_as_fresh(graph, order, plan, scratch, setting));
      REQUIRE(same_as_fresh(graph, step.schedule, step.memory, scratch, setting));
    }
    const plan::MemoryPlan without = plan::plan_memory(graph, order, scratch, apart);
    REQUIRE(testing::check_plan(graph, order, scratch, without, apart).value_or("no fault") ==
            "no fault");
    REQUIRE(plan.lower_bound <= without.lower_bound);
    REQUIRE(plan::schedule(graph, shared).peak_bytes <= plan::schedule(graph, apart).peak_bytes);
    smaller += plan.arena_bytes < without.arena_bytes ? 1 : 0;
    larger += plan.arena_bytes > without.arena_bytes ? 1 : 0;
    const auto ratio = [](std::size_t a, std::size_t b) {
      return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b);
    };
    worst = std::max(worst, ratio(plan.arena_bytes, plan.lower_bound));
    sum += ratio(plan.arena_bytes, plan.lower_bound);
    worst_step = std::max(worst_step, ratio(step.memory.arena_bytes, step.memory.lower_bound));
    step_less += ratio(step.memory.arena_bytes, plan.arena_bytes);
    less += ratio(plan.arena_bytes, without.arena_bytes);
    bound_less += ratio(plan.lower_bound, without.lower_bound);
    at_bound += plan.arena_bytes == plan.lower_bound ? 1 : 0;
  }
  MESSAGE("plan / bound over ", kGraphs, " graphs: mean ", sum / kGraphs, ", worst ", worst, ", ",
          at_bound, " at the bound; shared / apart: mean ", less / kGraphs, " (bounds ",
          bound_less / kGraphs, "), ", smaller, " smaller, ", larger,
          " larger; of all orders: ", step_less / kGraphs, " of that, worst ", worst_step);
  CHECK(worst <= 1.2);
  CHECK(sum / kGraphs <= 1.01);
  CHECK(6 * at_bound > 5 * kGraphs);
  CHECK(worst_step <= 1.2);
  CHECK(step_less / kGraphs < 1);
  CHECK(smaller > kGraphs / 2);
}

TEST_CASE("plans of random graphs with values inside others, and nodes that wait, are right") {
  int inside = 0;
  for (int seed = 0; seed < graphs(200); ++seed) {
    CAPTURE(seed);
    Settings settings;
    settings.skips = seed % 2 == 1;
    RandomGraph random(seed, settings.skips ? Guarding::yes : Guarding::no, true);
    const ir::Graph graph = random.make();
    CAPTURE(graph.print());
    const std::vector<std::size_t> scratch = random_scratch(random, graph);
    const plan::StepPlan plan = plan::plan_step(graph, scratch, settings);
    REQUIRE(testing::check_plan(graph, plan.schedule, scratch, plan.memory, settings)
                .value_or("no fault") == "no fault");
    for (std::uint64_t setting = 0; setting < (settings.skips ? kSettings : 1); ++setting) {
      const auto number = settings.skips ? std::optional(setting) : std::nullopt;
      REQUIRE(same_as_fresh(graph, plan.schedule, plan.memory, scratch, number, &inside));
    }
  }
  CHECK(inside > graphs(200));
}

/// Moves a value and its views, or scratch, or swaps two neighbours of the order.
void spoil(RandomGraph& random, const ir::Graph& graph, plan::Schedule& order,
           plan::MemoryPlan& plan) {
  const int index = random.below(graph.nodes().size());
  const std::size_t offset = 64 * random.below(plan.arena_bytes / 64 + 1);
  switch (random.below(3)) {
    case 0: {
      const plan::Place from = plan.places[index][0];
      if (from.in != plan::Place::Kind::arena) return;
      const std::size_t end = from.offset + graph.nodes()[index].types[0].bytes();
      for (std::size_t i = static_cast<std::size_t>(index); i < plan.places.size(); ++i) {
        plan::Place& place = plan.places[i][0];
        const bool view = graph.nodes()[i].op->name() == "head" &&
                          place.in == plan::Place::Kind::arena && place.offset >= from.offset &&
                          place.offset <= end;
        if (static_cast<int>(i) == index || view)
          place.offset = place.offset - from.offset + offset;
      }
      return;
    }
    case 1:
      plan.scratch_offsets[index] = offset;
      return;
    case 2:
      if (index > 0) std::swap(order.order[index - 1], order.order[index]);
      return;
  }
}

TEST_CASE("a spoilt plan that the check lets pass replays the same all the same") {
  int passed = 0, caught_wrong = 0;
  for (int seed = 0; seed < graphs(160); ++seed) {
    Settings settings;
    settings.skips = seed % 2 == 1;
    RandomGraph random(seed, settings.skips ? Guarding::yes : Guarding::no, seed % 4 >= 2);
    const ir::Graph graph = random.make();
    const std::vector<std::size_t> scratch = random_scratch(random, graph);
    const plan::Schedule order = plan::schedule(graph, settings);
    const plan::MemoryPlan plan = plan::plan_memory(graph, order, scratch, settings);
    for (int attempt = 0; attempt < 40; ++attempt) {
      plan::Schedule other_order = order;
      plan::MemoryPlan other = plan;
      spoil(random, graph, other_order, other);
      if (other == plan && other_order == order) continue;
      const auto fault = testing::check_plan(graph, other_order, scratch, other, settings);
      bool same = settings.skips || same_as_fresh(graph, other_order, other, scratch);
      for (std::uint64_t setting = 0; same && settings.skips && setting < kSettings; ++setting) {
        same = same_as_fresh(graph, other_order, other, scratch, setting);
      }
      if (fault) {
        caught_wrong += same ? 0 : 1;
        continue;
      }
      ++passed;
      CAPTURE(seed);
      CAPTURE(graph.print());
      CHECK(same);
    }
  }
  MESSAGE(passed, " spoilt plans pass the check; ", caught_wrong, " are caught and replay wrongly");
  CHECK(passed > graphs(50));
  CHECK(caught_wrong > graphs(50));
}

}  // namespace
}  // namespace metronome::testing::random_plan_test
