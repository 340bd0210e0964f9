#include "graph/check/check_guards.h"

#include <algorithm>

#include "graph/ir/guarded.h"

namespace metronome::check {

bool GuardFacts::exclude(ValueId a, ValueId b) const {
  if (!a.present() || !b.present() || a == b) return false;
  const auto [asked, is_new] = asked_.try_emplace(std::minmax(a, b), false);
  if (!is_new) return asked->second;
  Outcomes known;
  std::vector<ValueId> never;
  return asked->second =
             !require(a, known, never) || !require(b, known, never) || !possible(never, known);
}

/// Adds the conditions under which the guard is true: outcomes, and guards that are false. Returns
/// false if outcomes contradict each other.
bool GuardFacts::require(ValueId guard, Outcomes& known, std::vector<ValueId>& never) const {
  while (true) {
    const Node& node = graph_.node(guard);
    const Guard* rule = node.op->as<Guard>();
    if (rule == nullptr) return known.try_emplace({guard, 0}, 1).first->second == 1;
    const ValueId decider = node.inputs[0];
    if (graph_.node(decider).op->as<Guard>() == nullptr) {
      const auto outcome = known.try_emplace({decider, rule->cases}, rule->when).first->second;
      if (outcome != rule->when) return false;
    } else if (rule->when == 0) {
      never.push_back(decider);
    } else if (!require(decider, known, never)) {
      return false;
    }
    if (!rule->nested) return true;
    guard = node.inputs[1];
  }
}

/// Tells whether the guard is true, given the known outcomes; if they leave it open, `open` becomes
/// a decider that would say more.
GuardFacts::Truth GuardFacts::truth(ValueId guard, const Outcomes& known, Decider& open) const {
  Truth result = Truth::yes;
  while (true) {
    const Node& node = graph_.node(guard);
    const Guard* rule = node.op->as<Guard>();
    const bool by_guard = rule != nullptr && graph_.node(node.inputs[0]).op->as<Guard>() != nullptr;
    Truth decided = Truth::open;
    if (by_guard) {
      decided = truth(node.inputs[0], known, open);
      if (decided != Truth::open) {
        decided = (decided == Truth::yes) == (rule->when == 1) ? Truth::yes : Truth::no;
      }
    } else {
      const Decider decider =
          rule == nullptr ? Decider{guard, 0} : Decider{node.inputs[0], rule->cases};
      const auto found = known.find(decider);
      if (found == known.end()) {
        open = decider;
      } else {
        decided = found->second == (rule == nullptr ? 1 : rule->when) ? Truth::yes : Truth::no;
      }
    }
    if (decided == Truth::no) return Truth::no;
    if (decided == Truth::open) result = Truth::open;
    if (rule == nullptr || !rule->nested) return result;
    guard = node.inputs[1];
  }
}

/// True where deciders whose outcomes are not known can make all of `never` false.
bool GuardFacts::possible(const std::vector<ValueId>& never, const Outcomes& known) const {
  Decider open;
  bool undecided = false;
  for (const ValueId guard : never) {
    const Truth of_guard = truth(guard, known, open);
    if (of_guard == Truth::yes) return false;
    undecided |= of_guard == Truth::open;
  }
  if (!undecided) return true;
  for (std::int64_t outcome = 0; outcome < std::max<std::int64_t>(open.second, 2); ++outcome) {
    Outcomes tried = known;
    tried[open] = outcome;
    if (possible(never, tried)) return true;
  }
  return false;
}

}  // namespace metronome::check
