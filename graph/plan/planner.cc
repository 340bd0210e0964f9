#include "graph/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "graph/control/exclusions.h"
#include "graph/ir/error.h"
#include "graph/placement/placement.h"
#include "graph/plan/lifetimes.h"
#include "graph/plan/schedules.h"
#include "graph/plan/uses.h"

namespace metronome::plan {
namespace {

std::vector<Holder> holders_at(const Peak& peak, const Uses& uses,
                               const control::NumberedGuards& guards, const Lifetimes& lifetimes) {
  std::vector<Holder> holders;
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    const Life& life = lifetimes.lives[value];
    const bool is_root = uses.views[value].root == value;
    if (!is_root || life.begin > peak.step || life.end < peak.step || uses.bytes[value] == 0) {
      continue;
    }
    const std::int32_t guard = guards.of_node[uses.ids[value].node];
    if (guard >= 0 && !std::binary_search(peak.guards.begin(), peak.guards.end(), guard)) continue;
    holders.push_back({uses.ids[value], uses.bytes[value]});
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return holders;
}

/// The blocks to be placed for one order: those of values, then those of scratch.
struct Draft {
  const Schedule* schedule = nullptr;
  const Uses* uses = nullptr;
  Lifetimes lifetimes;
  std::vector<std::int32_t> scratch_nodes;
  std::vector<HeldBlock> blocks;
  Peak peak;
  Placement placement;
};

/// Drafts, of which at most so many are searched for a better placement: each may take long. As
/// many lowered orders are placed.
constexpr std::size_t kSearched = 4;

/// A lowered order is taken if it saves this share of the bytes: less is not worth another order.
constexpr double kWorthMoving = 0.03;
/// Orders of smaller plans are lowered only where `plan_work` asks for it: it takes milliseconds, a
/// third of a small model's compile, and the bytes that it saves are fewer than the program has.
constexpr std::size_t kWorthLowering = std::size_t{1} << 20;

/// With work of the user's own the search goes on to the bound.
SearchLimits limits_of(const Settings& settings) {
  if (!settings.plan_work) return {};
  return {.work = *settings.plan_work, .enough = 0};
}

class Planner {
 public:
  Planner(const ir::Graph& graph, const std::vector<std::size_t>& scratch_bytes,
          const Settings& settings)
      : graph_(graph),
        scratch_bytes_(scratch_bytes),
        alignment_(settings.alignment),
        limits_(limits_of(settings)),
        guards_(control::number_guards(graph.nodes(), settings)) {
    // Operands lie inside results unless they take fewer bytes apart: then each is held for itself,
    // and not the whole from its first part on.
    uses_.push_back(uses_of(graph, alignment_));
    if (has_insides(uses_[0])) uses_.push_back(uses_apart(graph, alignment_));
    const std::size_t nodes = graph.nodes().size();
    if (!scratch_bytes.empty() && scratch_bytes.size() != nodes) {
      throw InternalError(
          fmt::format("scratch bytes of {} nodes for a graph of {}", scratch_bytes.size(), nodes));
    }
  }

  /// The smallest plan of any of the schedules.
  StepPlan best_of(std::span<const Schedule> schedules) const {
    return choose(schedules, uses_, limits_).plan;
  }

  /// The smallest plan of any of the schedules, or of one that is lowered from them, if that takes
  /// clearly fewer bytes: what lies inside results still does, as it saves copies.
  StepPlan lowest_of(std::span<const Schedule> schedules, const Settings& settings) const {
    Choice choice = choose(schedules, uses_, limits_);
    const std::size_t now = choice.plan.memory.arena_bytes;
    if (!settings.plan_work && now < kWorthLowering) return std::move(choice.plan);
    const double share = settings.plan_work ? 0 : kWorthMoving;
    const auto most = static_cast<std::size_t>((1 - share) * static_cast<double>(now));
    std::vector<Schedule> lowered = lowered_schedules(graph_, settings, *choice.uses, schedules);
    std::erase_if(
        lowered, [&](const Schedule& s) { return static_cast<std::size_t>(s.peak_bytes) >= most; });
    if (lowered.empty()) return std::move(choice.plan);
    if (lowered.size() > kSearched) lowered.resize(kSearched);
    // By default a search comes last: most lowered orders do not win, and it takes long.
    const std::span<const Uses> way(choice.uses, 1);
    if (!settings.plan_work && choose(lowered, way, {.work = 0}).plan.memory.arena_bytes >= most) {
      return std::move(choice.plan);
    }
    Choice lower = choose(lowered, way, limits_);
    std::size_t& bound = lower.plan.memory.lower_bound;
    bound = std::min(bound, choice.plan.memory.lower_bound);
    return std::move((lower.plan.memory.arena_bytes < most ? lower : choice).plan);
  }

 private:
  struct Choice {
    StepPlan plan;
    const Uses* uses;
  };

  /// The smallest plan of any of the schedules, for any of the ways in which values lie.
  Choice choose(std::span<const Schedule> schedules, std::span<const Uses> ways,
                const SearchLimits& limits) const {
    std::vector<Draft> drafts;
    std::size_t least = SIZE_MAX, bound = SIZE_MAX;
    for (const Schedule& s : schedules) {
      for (const Uses& uses : ways) {
        for (const Takeover takeover : {Takeover::any, Takeover::same_guard}) {
          if (takeover == Takeover::same_guard && guards_.excludes.guards() == 0) continue;
          // Schedules tell the peak of the first way.
          const bool known = &uses == ways.data() && takeover == Takeover::any;
          if (known && static_cast<std::size_t>(s.peak_bytes) >= least) continue;
          Draft draft = make_draft(s, uses, takeover);
          bound = std::min(bound, draft.peak.bytes);
          if (draft.peak.bytes >= least) continue;
          draft.placement = place(draft.blocks, guards_.excludes, Effort::greedy);
          least = std::min(least, draft.placement.bytes);
          drafts.push_back(std::move(draft));
        }
      }
    }
    std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
      return a.placement.bytes < b.placement.bytes;
    });
    const Draft* best = &drafts[0];
    std::size_t searched = 0;
    for (Draft& draft : drafts) {
      // It cannot win, or not by much.
      const bool close = limits.enough ? best->placement.bytes <= draft.peak.bytes
                                       : near_peak(best->placement.bytes, draft.peak.bytes);
      if (close) continue;
      if (searched++ == kSearched || limits.work == 0) break;
      draft.placement = place(draft.blocks, guards_.excludes, Effort::search, limits);
      if (draft.placement.bytes < best->placement.bytes) best = &draft;
    }
    const Draft* inside = nullptr;  // saves copies, so it may take a little more
    for (const Draft& draft : drafts) {
      if (draft.uses != &uses_[0] || !near_peak(draft.placement.bytes, best->placement.bytes)) {
        continue;
      }
      if (inside == nullptr || draft.placement.bytes < inside->placement.bytes) inside = &draft;
    }
    if (inside != nullptr) best = inside;
    Choice choice{{*best->schedule, make_memory_plan(*best)}, best->uses};
    choice.plan.memory.lower_bound = bound;
    return choice;
  }

  Draft make_draft(const Schedule& schedule, const Uses& uses, Takeover takeover) const {
    Draft draft{&schedule, &uses, {}, {}, {}, {}, {}};
    draft.lifetimes = lifetimes_of(graph_, uses, schedule.order, schedule.in_place, guards_,
                                   alignment_, takeover);
    draft.blocks = draft.lifetimes.blocks;
    add_scratch(schedule.order, draft);
    draft.peak = peak_of(draft.blocks, guards_.excludes);
    return draft;
  }

  /// Scratch is a block that is held for the one step of its node.
  void add_scratch(const std::vector<std::int32_t>& order, Draft& draft) const {
    for (std::size_t step = 0; step < order.size() && !scratch_bytes_.empty(); ++step) {
      const std::int32_t node = order[step];
      if (scratch_bytes_[node] == 0) continue;
      const std::size_t bytes = round_up(scratch_bytes_[node], alignment_);
      const auto now = static_cast<std::int32_t>(step);
      draft.blocks.push_back({now, now, bytes});
      if (guards_.of_node[node] >= 0)
        draft.blocks.back().spans = {{now, now, guards_.of_node[node]}};
      draft.scratch_nodes.push_back(node);
    }
  }

  MemoryPlan make_memory_plan(const Draft& draft) const {
    const auto& [schedule, uses_of_draft, lifetimes, scratch_nodes, blocks, peak, placement] =
        draft;
    const Uses& uses = *uses_of_draft;
    MemoryPlan plan;
    plan.arena_bytes = placement.bytes;
    plan.held_bytes = peak.bytes;
    plan.least_bytes = placement.least;
    plan.holders = holders_at(peak, uses, guards_, lifetimes);
    plan.places.resize(graph_.nodes().size());
    for (std::int32_t value = 0; value < uses.values(); ++value) {
      Place place = lifetimes.places[value];
      if (place.in == Place::Kind::arena) {
        place.offset += placement.offsets[place.index];
        place.index = -1;
      }
      plan.places[uses.ids[value].node].push_back(place);
    }
    plan.scratch_offsets.resize(graph_.nodes().size());
    for (std::size_t i = 0; i < scratch_nodes.size(); ++i) {
      plan.scratch_offsets[scratch_nodes[i]] = placement.offsets[lifetimes.blocks.size() + i];
    }
    plan.readable_bytes.resize(graph_.readables().size());
    for (std::int32_t value = 0; value < uses.values(); ++value) {
      if (uses.views[value].root != value || uses.homes[value] != Uses::Home::readable) continue;
      plan.readable_bytes[uses.home_index[value]] = uses.bytes[value];
    }
    return plan;
  }

  const ir::Graph& graph_;
  const std::vector<std::size_t>& scratch_bytes_;
  const std::size_t alignment_;
  const SearchLimits limits_;
  std::vector<Uses> uses_;  // with operands inside results; where there are any, also apart
  const control::NumberedGuards guards_;
};

}  // namespace

MemoryPlan plan_memory(const ir::Graph& graph, const Schedule& schedule,
                       const std::vector<std::size_t>& scratch_bytes, const Settings& settings) {
  return Planner(graph, scratch_bytes, settings).best_of({&schedule, 1}).memory;
}

StepPlan plan_step(const ir::Graph& graph, const std::vector<std::size_t>& scratch_bytes,
                   const Settings& settings) {
  return Planner(graph, scratch_bytes, settings).lowest_of(schedules(graph, settings), settings);
}

}  // namespace metronome::plan
