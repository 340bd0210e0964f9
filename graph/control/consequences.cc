#include "graph/control/consequences.h"

#include <algorithm>
#include <bit>

#include "graph/ir/guarded.h"

namespace metronome::control {
namespace {

const Guard* rule_of(const std::vector<Node>& nodes, ValueId guard) {
  return nodes[guard.node].op->as<Guard>();
}
ValueId decider_of(const std::vector<Node>& nodes, ValueId guard) {
  return nodes[guard.node].inputs[0];
}
ValueId parent_of(const std::vector<Node>& nodes, ValueId guard) {
  return rule_of(nodes, guard)->nested ? nodes[guard.node].inputs[1] : ValueId{};
}

}  // namespace

void NumberSet::insert(const NumberSet& others) {
  if (words_.size() < others.words_.size()) words_.resize(others.words_.size());
  for (std::size_t i = 0; i < others.words_.size(); ++i) words_[i] |= others.words_[i];
}

void NumberSet::remove(const NumberSet& others) {
  const std::size_t both = std::min(words_.size(), others.words_.size());
  for (std::size_t i = 0; i < both; ++i) words_[i] &= ~others.words_[i];
}

bool NumberSet::meets(const NumberSet& others) const {
  const std::size_t both = std::min(words_.size(), others.words_.size());
  for (std::size_t i = 0; i < both; ++i) {
    if ((words_[i] & others.words_[i]) != 0) return true;
  }
  return false;
}

std::vector<std::size_t> NumberSet::all() const {
  std::vector<std::size_t> numbers;
  for (std::size_t word = 0; word < words_.size(); ++word) {
    for (std::uint64_t rest = words_[word]; rest != 0; rest &= rest - 1) {
      numbers.push_back(64 * word + static_cast<std::size_t>(std::countr_zero(rest)));
    }
  }
  return numbers;
}

std::size_t Consequences::number_of(ValueId guard) {
  const auto [found, is_new] = guards_.try_emplace(guard, next_);
  if (is_new) ++next_;
  return found->second;
}

std::size_t Consequences::number_of(ValueId decider, std::int64_t cases) {
  const auto [found, is_new] = deciders_.try_emplace({decider, cases}, next_);
  if (is_new) next_ += static_cast<std::size_t>(cases);
  return found->second;
}

const Known& Consequences::of(const std::vector<Node>& nodes, ValueId guard) {
  // From the first guard on that is not known, so that a long chain takes no deep recursion.
  std::vector<ValueId> open = {guard};
  while (!open.empty()) {
    const ValueId now = open.back();
    if (known_.contains(now)) {
      open.pop_back();
      continue;
    }
    const Guard* rule = rule_of(nodes, now);
    std::vector<ValueId> implied;
    if (rule != nullptr && rule->nested) implied.push_back(parent_of(nodes, now));
    const ValueId decider = rule == nullptr ? ValueId{} : decider_of(nodes, now);
    const bool by_guard = rule != nullptr && rule_of(nodes, decider) != nullptr;
    if (by_guard && rule->when == 1) implied.push_back(decider);
    const std::size_t before = open.size();
    for (const ValueId id : implied) {
      if (!known_.contains(id)) open.push_back(id);
    }
    if (open.size() > before) continue;
    open.pop_back();
    Known known;
    for (const ValueId id : implied) add(known, known_.at(id));
    if (rule != nullptr && !by_guard) decide(known, decider, *rule);
    if (by_guard && rule->when == 0) {
      const Reason reason = deny(nodes, decider, known);
      known.contradicts |= reason == Reason::contradicts;
      known.complete &= reason != Reason::open;
    }
    const std::size_t self = number_of(now);
    known.contradicts |= known.fails.has(self);
    known.holds.insert(self);
    known_.emplace(now, std::move(known));
  }
  return known_.at(guard);
}

std::optional<bool> Consequences::possible(const std::vector<Node>& nodes,
                                           std::span<const GuardFact> facts) {
  // Asked most often, of guards along long loops: that one does not imply another. It does not
  // where a decider of the other's own, of which nothing is known, can make it false, whatever
  // becomes of the other's parent; that takes no walk along the loop.
  if (facts.size() == 2 && facts[0].holds && facts[0].guard.present() && !facts[1].holds &&
      facts[1].guard.present()) {
    const Known& known = of(nodes, facts[0].guard);
    const ValueId denied = facts[1].guard;
    const Guard* rule = rule_of(nodes, denied);
    if (known.holds.has(number_of(denied))) return false;
    if (rule != nullptr && rule->cases == 2 && known.complete && !known.contradicts &&
        rule_of(nodes, decider_of(nodes, denied)) == nullptr &&
        outcome(nodes, denied, known) == Truth::unknown) {
      return true;
    }
  }
  std::vector<ValueId> denied;
  for (const auto& [guard, holds] : facts) {
    if (holds) continue;
    if (!guard.present()) return false;
    const std::size_t number = number_of(guard);
    for (const GuardFact& fact : facts) {  // most often one says it, and no union is needed
      if (fact.holds && fact.guard.present() && of(nodes, fact.guard).holds.has(number)) {
        return false;
      }
    }
    denied.push_back(guard);
  }
  Known known;
  for (const auto& [guard, holds] : facts) {
    if (holds && guard.present()) add(known, of(nodes, guard));
  }
  // What is found to be the reason of one may be that of another.
  for (std::size_t before = denied.size() + 1; denied.size() < before;) {
    if (known.contradicts) return false;
    if (!known.complete) return std::nullopt;
    before = denied.size();
    std::vector<ValueId> open;
    for (const ValueId guard : denied) {
      const Reason reason = deny(nodes, guard, known);
      if (reason == Reason::contradicts) return false;
      if (reason == Reason::open) open.push_back(guard);
    }
    denied = std::move(open);
  }
  // Those that are left may be false for several reasons: their own deciders serve, unless they
  // are guards, or two of them leave a decider no case.
  for (const ValueId guard : denied) {
    const Guard& rule = *rule_of(nodes, guard);
    const ValueId decider = decider_of(nodes, guard);
    const Truth decided = outcome(nodes, guard, known);
    if (decided == Truth::no) continue;
    if (decided == Truth::yes || rule_of(nodes, decider) != nullptr) return std::nullopt;
    decide_otherwise(known, decider, rule);
    if (known.contradicts || !known.complete) return std::nullopt;
  }
  return true;
}

Consequences::Truth Consequences::truth(const std::vector<Node>& nodes, ValueId guard,
                                        const Known& known) {
  if (!guard.present()) return Truth::yes;
  const std::size_t number = number_of(guard);
  if (known.holds.has(number)) return Truth::yes;
  if (known.fails.has(number)) return Truth::no;
  if (rule_of(nodes, guard) == nullptr) return Truth::unknown;
  const Truth decided = outcome(nodes, guard, known);
  if (decided == Truth::no) return Truth::no;
  const Truth parent = truth(nodes, parent_of(nodes, guard), known);
  return parent == Truth::no || parent == decided ? parent : Truth::unknown;
}

/// Whether the guard's decider comes out as the guard asks.
Consequences::Truth Consequences::outcome(const std::vector<Node>& nodes, ValueId guard,
                                          const Known& known) {
  const Guard& rule = *rule_of(nodes, guard);
  const ValueId decider = decider_of(nodes, guard);
  if (rule_of(nodes, decider) != nullptr) {
    const Truth decided = truth(nodes, decider, known);
    if (decided == Truth::unknown) return decided;
    return (decided == Truth::yes) == (rule.when == 1) ? Truth::yes : Truth::no;
  }
  const std::size_t number = number_of(decider, rule.cases) + static_cast<std::size_t>(rule.when);
  if (known.holds.has(number)) return Truth::yes;
  return known.fails.has(number) ? Truth::no : Truth::unknown;
}

void Consequences::add(Known& known, const Known& more) {
  known.contradicts |=
      more.contradicts || known.holds.meets(more.fails) || known.fails.meets(more.holds);
  known.complete &= more.complete;
  known.holds.insert(more.holds);
  known.fails.insert(more.fails);
}

/// The decider comes out as the rule asks.
void Consequences::decide(Known& known, ValueId decider, const Guard& rule) {
  const std::size_t first = number_of(decider, rule.cases);
  for (std::size_t k = 0; k < static_cast<std::size_t>(rule.cases); ++k) {
    const bool is = k == static_cast<std::size_t>(rule.when);
    known.contradicts |= (is ? known.fails : known.holds).has(first + k);
    (is ? known.holds : known.fails).insert(first + k);
  }
}

/// The decider comes out in another way.
void Consequences::decide_otherwise(Known& known, ValueId decider, const Guard& rule) {
  if (rule.cases == 2) {
    Guard other = rule;
    other.when = 1 - rule.when;
    decide(known, decider, other);
    return;
  }
  const std::size_t number = number_of(decider, rule.cases) + static_cast<std::size_t>(rule.when);
  known.contradicts |= known.holds.has(number);
  known.fails.insert(number);
  known.complete = false;
}

/// The guard is false: adds what follows where there is only one reason for it.
Consequences::Reason Consequences::deny(const std::vector<Node>& nodes, ValueId guard,
                                        Known& known) {
  while (true) {
    if (!guard.present()) return Reason::contradicts;
    const std::size_t number = number_of(guard);
    if (known.holds.has(number)) return Reason::contradicts;
    if (known.fails.has(number)) return Reason::found;
    const Guard* rule = rule_of(nodes, guard);
    if (rule == nullptr) {
      known.fails.insert(number);
      return Reason::found;
    }
    const Truth decided = outcome(nodes, guard, known);
    const Truth parent = truth(nodes, parent_of(nodes, guard), known);
    if (decided == Truth::unknown && parent == Truth::unknown) return Reason::open;
    known.fails.insert(number);
    if (decided == Truth::no || parent == Truth::no) return Reason::found;
    if (decided == Truth::yes && parent == Truth::yes) return Reason::contradicts;
    if (decided == Truth::yes) {
      guard = parent_of(nodes, guard);
      continue;
    }
    const ValueId decider = decider_of(nodes, guard);
    if (rule_of(nodes, decider) == nullptr) {
      decide_otherwise(known, decider, *rule);
      return known.contradicts ? Reason::contradicts : Reason::found;
    }
    if (rule->when == 1) {
      guard = decider;
      continue;
    }
    add(known, of(nodes, decider));
    return known.contradicts ? Reason::contradicts : Reason::found;
  }
}

}  // namespace metronome::control
