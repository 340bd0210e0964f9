#include "graph/check/check_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace metronome::check {
namespace {

/// Bytes that are held from a step on, under a guard or (-1) in any case. Unsigned: a release
/// is added as a number that wraps.
struct Change {
  int step;
  int guard;
  std::size_t bytes;
};

std::vector<Change> changes(const Checked& c) {
  std::vector<Change> changes;
  const auto hold = [&](std::size_t bytes, int guard, int first, int last) {
    const std::size_t rounded = (bytes + c.alignment - 1) / c.alignment * c.alignment;
    if (last < first || rounded == 0) return;
    changes.push_back({first, guard, rounded});
    changes.push_back({last + 1, guard, 0 - rounded});
  };
  for (const auto& [id, fact] : c.facts.all()) {
    const bool apart = fact.root == id && !c.insides.contains(id);
    if (!apart || c.place_of(id).in != plan::Place::In::arena) continue;
    const auto taken = c.taken_over.find(id);
    const PlanFact& life = c.insides.held(id);
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
std::size_t most_held(const Checked& c) {
  const std::vector<Change> all = changes(c);
  const auto walk = [&](const auto& visit) {  // visit(step, sum, what is held by guard)
    std::map<int, std::size_t> held;
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
  const auto exact = [&](const std::map<int, std::size_t>& held) {
    GuardFacts::Held guarded;
    std::size_t always = 0;
    for (const auto& [guard, bytes] : held) {
      if (guard < 0) {
        always = bytes;
      } else {
        guarded.emplace_back(guard, bytes);
      }
    }
    return always + c.guards.heaviest(std::move(guarded));
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

}  // namespace

Fault check_bound(const Checked& c) {
  const std::size_t bound = most_held(c);
  if (bound != c.plan.held_bytes) {
    return fmt::format("the plan says that its values hold {} bytes, but they hold {}",
                       c.plan.held_bytes, bound);
  }
  if (c.plan.lower_bound <= bound) return std::nullopt;
  return fmt::format("the plan's lower bound is {} bytes, but its values hold {}",
                     c.plan.lower_bound, bound);
}

}  // namespace metronome::check
