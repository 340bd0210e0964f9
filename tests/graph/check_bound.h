// Whether a plan is right, and says truly how many bytes its values hold: counted once more, apart
// from the planner.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/check/check_places.h"
#include "graph/check/check_plan.h"
#include "graph/check/check_writes.h"
#include "graph/check/checked_plan.h"

namespace metronome::testing {

/// Bytes that are held under guards.
using Held = std::vector<std::pair<ValueId, std::size_t>>;

inline std::size_t heaviest(const check::GuardFacts& guards, Held held);

/// If all exclude each other, the heaviest is held; else the one that excludes most is held or not.
inline std::size_t heaviest_of_part(const check::GuardFacts& guards, Held part) {
  std::vector<std::size_t> excludes;
  for (const auto& guard : part) {
    excludes.push_back(std::count_if(part.begin(), part.end(), [&](const auto& other) {
      return guards.exclude(guard.first, other.first);
    }));
  }
  const auto [fewest, most] = std::minmax_element(excludes.begin(), excludes.end());
  if (*fewest + 1 == part.size()) {
    return std::max_element(part.begin(), part.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->second;
  }
  const auto one = part.begin() + (most - excludes.begin());
  const auto [guard, bytes] = *one;
  part.erase(one);
  const std::size_t without = heaviest(guards, part);
  std::erase_if(
      part, [&, guard = guard](const auto& other) { return guards.exclude(guard, other.first); });
  return std::max(without, bytes + heaviest(guards, std::move(part)));
}

/// The most bytes that a set of guards holds, no two of which exclude each other.
inline std::size_t heaviest(const check::GuardFacts& guards, Held held) {
  std::size_t sum = 0;
  while (!held.empty()) {
    // The guards linked to the last one by exclusions. All others are chosen independently.
    Held part = {held.back()};
    held.pop_back();
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto apart = std::partition(held.begin(), held.end(), [&](const auto& other) {
        return !guards.exclude(part[i].first, other.first);
      });
      part.insert(part.end(), apart, held.end());
      held.erase(apart, held.end());
    }
    sum += heaviest_of_part(guards, std::move(part));
  }
  return sum;
}

/// Bytes that are held from a step on, under a guard or in any case. Unsigned: a release
/// is added as a number that wraps.
struct Change {
  int step;
  ValueId guard;
  std::size_t bytes;
};

inline std::vector<Change> changes(const check::CheckedPlan& c) {
  std::vector<Change> changes;
  const auto hold = [&](std::size_t bytes, ValueId guard, int first, int last) {
    const std::size_t rounded = (bytes + c.alignment - 1) / c.alignment * c.alignment;
    if (last < first || rounded == 0) return;
    changes.push_back({first, guard, rounded});
    changes.push_back({last + 1, guard, 0 - rounded});
  };
  for (const auto& [id, own] : c.lives.all()) {
    const bool apart = own.root == id && !c.insides.contains(id);
    if (!apart || c.place_of(id).in != plan::Place::Kind::arena) continue;
    const auto taken = c.taken_over.find(id);
    const check::ValueLife& life = c.insides.life_of(id);
    hold(c.graph.type(id).bytes(), c.guards.of(id.node), life.made,
         taken == c.taken_over.end() ? life.last : taken->second - 1);
  }
  for (int step = 0; step < c.steps() && !c.scratch.empty(); ++step) {
    const std::int32_t index = c.schedule.order[step];
    hold(c.scratch[index], c.guards.of(index), step, step);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& x, const Change& y) { return x.step < y.step; });
  return changes;
}

/// The most that is held at any step. Exclusions cost time, so they are counted only for steps
/// that without them would hold more than the most so far, the fullest such step first.
inline std::size_t most_held(const check::CheckedPlan& c) {
  const std::vector<Change> all = changes(c);
  const auto walk = [&](const auto& visit) {  // visit(step, sum, what is held by guard)
    std::map<ValueId, std::size_t> held;
    std::size_t sum = 0;
    for (auto change = all.begin(); change != all.end();) {
      const int step = change->step;
      for (; change != all.end() && change->step == step; ++change) {
        sum += change->bytes;
        const auto of_guard = held.try_emplace(change->guard, 0).first;
        of_guard->second += change->bytes;
        if (of_guard->second == 0) held.erase(of_guard);
      }
      visit(step, sum, held);
    }
  };
  const auto exact = [&](const std::map<ValueId, std::size_t>& held) {
    Held guarded;
    std::size_t always = 0;
    for (const auto& [guard, bytes] : held) {
      if (!guard.present()) {
        always = bytes;
      } else {
        guarded.emplace_back(guard, bytes);
      }
    }
    return always + heaviest(c.guards, std::move(guarded));
  };
  std::size_t fullest = 0, most = 0;
  int at = -1;
  walk([&](int step, std::size_t sum, const auto&) {
    if (sum > fullest) fullest = sum, at = step;
  });
  walk([&](int step, std::size_t, const auto& held) {
    if (step == at) most = exact(held);
  });
  walk([&](int, std::size_t sum, const auto& held) {
    if (sum > most) most = std::max(most, exact(held));
  });
  return most;
}

/// As `check::check_plan`; besides, `held_bytes` is the most that is held at any step, and the
/// plan's lower bound is no more.
inline check::Mistake check_plan(const ir::Graph& graph, const plan::Schedule& schedule,
                                 const check::Sizes& scratch, const plan::MemoryPlan& plan,
                                 const Settings& settings) {
  if (check::Mistake fault = check::check_plan(graph, schedule, scratch, plan, settings))
    return fault;
  check::CheckedPlan c(graph, schedule, scratch, plan, settings);
  static_cast<void>(check::find_fixed(c));
  c.insides =
      check::Insides(graph, c.lives, plan, [&c](ValueId id) { return c.fixed.contains(id); });
  static_cast<void>(check::check_writes(c));
  const std::size_t bound = most_held(c);
  if (bound != plan.held_bytes) {
    return fmt::format("the plan says that its values hold {} bytes, but they hold {}",
                       plan.held_bytes, bound);
  }
  if (plan.lower_bound <= bound) return std::nullopt;
  return fmt::format("the plan's lower bound is {} bytes, but its values hold {}", plan.lower_bound,
                     bound);
}

}  // namespace metronome::testing
