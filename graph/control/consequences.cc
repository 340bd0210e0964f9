#include "graph/control/consequences.h"

#include <algorithm>
#include <bit>

#include "graph/ir/guarded.h"

namespace metronome::control {
namespace {

const Guard* guard_at(const std::vector<Node>& nodes, ValueId guard) {
  return nodes[guard.node].op->as<Guard>();
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

std::int32_t Consequences::place_of(const std::vector<Node>& nodes, ValueId guard) {
  if (const auto found = places_.find(guard); found != places_.end()) return found->second;
  // Begins at the first unknown guard, so that a long chain causes no deep recursion.
  std::vector<ValueId> open = {guard};
  while (!open.empty()) {
    const ValueId now = open.back();
    const std::size_t before = open.size();
    if (guard_at(nodes, now) != nullptr) {
      for (const ValueId input : nodes[now.node].inputs) {
        if (guard_at(nodes, input) != nullptr && !places_.contains(input)) open.push_back(input);
      }
    }
    if (open.size() > before) continue;
    open.pop_back();
    if (places_.contains(now)) continue;
    const Rule rule = rule_of(nodes, now);
    places_.emplace(now, static_cast<std::int32_t>(rules_.size()));
    rules_.push_back(rule);
  }
  return places_.at(guard);
}

/// Those that it names are known.
Consequences::Rule Consequences::rule_of(const std::vector<Node>& nodes, ValueId guard) {
  Rule rule{guard, next_++};
  const Guard* says = guard_at(nodes, guard);
  if (says == nullptr) return rule;
  rule.own = false;
  rule.when = says->when;
  rule.cases = says->cases;
  const std::vector<ValueId>& inputs = nodes[guard.node].inputs;
  if (says->nested) rule.parent = place_of(nodes, inputs[1]);
  if (guard_at(nodes, inputs[0]) != nullptr) {
    rule.decider = place_of(nodes, inputs[0]);
    return rule;
  }
  const auto [found, is_new] = deciders_.try_emplace({inputs[0], rule.cases}, next_);
  if (is_new) next_ += static_cast<std::size_t>(rule.cases);
  rule.case_0 = found->second;
  return rule;
}

const Known& Consequences::of(const std::vector<Node>& nodes, ValueId guard) {
  if (const auto found = known_.find(guard); found != known_.end()) return found->second;
  std::vector<std::int32_t> open = {place_of(nodes, guard)};
  while (!open.empty()) {
    const Rule rule = rules_[open.back()];
    std::vector<std::int32_t> implied;
    if (rule.parent >= 0) implied.push_back(rule.parent);
    if (rule.decider >= 0 && rule.when == 1) implied.push_back(rule.decider);
    const std::size_t before = open.size();
    for (const std::int32_t place : implied) {
      if (!known_.contains(rules_[place].guard)) open.push_back(place);
    }
    if (open.size() > before) continue;
    open.pop_back();
    if (known_.contains(rule.guard)) continue;
    Known known;
    for (const std::int32_t place : implied) add(known, known_.at(rules_[place].guard));
    if (!rule.own && rule.decider < 0) decide(known, rule, rule.when);
    if (rule.decider >= 0 && rule.when == 0) {
      const Reason reason = deny(nodes, rule.decider, known);
      known.contradicts |= reason == Reason::contradicts;
      known.complete &= reason != Reason::open;
    }
    known.contradicts |= known.fails.has(rule.number);
    known.holds.insert(rule.number);
    known_.emplace(rule.guard, std::move(known));
  }
  return known_.at(guard);
}

std::optional<bool> Consequences::possible(const std::vector<Node>& nodes,
                                           std::span<const GuardFact> facts) {
  // The most frequent answer, for guards along long loops, is that one does not imply another. If
  // nothing is known of the other's own decider, that decider can make the other false, whatever
  // its parent is; so the answer needs no walk along the loop.
  if (facts.size() == 2 && facts[0].holds && facts[0].guard.present() && !facts[1].holds &&
      facts[1].guard.present()) {
    const Known& known = of(nodes, facts[0].guard);
    const Rule& denied = rules_[place_of(nodes, facts[1].guard)];
    if (known.holds.has(denied.number)) return false;
    if (!denied.own && denied.cases == 2 && known.complete && !known.contradicts &&
        denied.decider < 0 && outcome(denied, known) == Truth::unknown) {
      return true;
    }
  }
  std::vector<std::int32_t> denied;
  for (const auto& [guard, holds] : facts) {
    if (holds) continue;
    if (!guard.present()) return false;
    const std::int32_t place = place_of(nodes, guard);
    const std::size_t number = rules_[place].number;
    for (const GuardFact& fact : facts) {  // most often one says it, and no union is needed
      if (fact.holds && fact.guard.present() && of(nodes, fact.guard).holds.has(number)) {
        return false;
      }
    }
    denied.push_back(place);
  }
  Known known;
  for (const auto& [guard, holds] : facts) {
    if (holds && guard.present()) add(known, of(nodes, guard));
  }
  // The reason found for one may also be the reason for another.
  for (std::size_t before = denied.size() + 1; denied.size() < before;) {
    if (known.contradicts) return false;
    if (!known.complete) return std::nullopt;
    before = denied.size();
    std::vector<std::int32_t> open;
    for (const std::int32_t place : denied) {
      const Reason reason = deny(nodes, place, known);
      if (reason == Reason::contradicts) return false;
      if (reason == Reason::open) open.push_back(place);
    }
    denied = std::move(open);
  }
  // Those that are left may be false for several reasons: their own deciders serve, unless they
  // are guards, or two of them leave a decider no case.
  for (const std::int32_t place : denied) {
    const Rule& rule = rules_[place];
    const Truth decided = outcome(rule, known);
    if (decided == Truth::no) continue;
    if (decided == Truth::yes || rule.decider >= 0) return std::nullopt;
    decide_otherwise(known, rule);
    if (known.contradicts || !known.complete) return std::nullopt;
  }
  return true;
}

Consequences::Truth Consequences::truth(std::int32_t place, const Known& known) const {
  // True where all deciders up to a true parent come out so, false where one does not.
  bool decided_so_far = true;
  for (; place >= 0; place = rules_[place].parent) {
    const Rule& rule = rules_[place];
    if (known.holds.has(rule.number)) break;
    if (known.fails.has(rule.number)) return Truth::no;
    if (rule.own) return Truth::unknown;
    const Truth decided = outcome(rule, known);
    if (decided == Truth::no) return Truth::no;
    decided_so_far &= decided == Truth::yes;
  }
  return decided_so_far ? Truth::yes : Truth::unknown;
}

/// Whether the guard's decider comes out as the guard asks.
Consequences::Truth Consequences::outcome(const Rule& rule, const Known& known) const {
  if (rule.decider >= 0) {
    const Truth decided = truth(rule.decider, known);
    if (decided == Truth::unknown) return decided;
    return (decided == Truth::yes) == (rule.when == 1) ? Truth::yes : Truth::no;
  }
  const std::size_t number = rule.case_0 + static_cast<std::size_t>(rule.when);
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

/// The rule's decider, which is no guard, comes out as case `when`.
void Consequences::decide(Known& known, const Rule& rule, std::int64_t when) {
  for (std::int64_t k = 0; k < rule.cases; ++k) {
    const std::size_t number = rule.case_0 + static_cast<std::size_t>(k);
    known.contradicts |= (k == when ? known.fails : known.holds).has(number);
    (k == when ? known.holds : known.fails).insert(number);
  }
}

/// It comes out in another way than the rule asks.
void Consequences::decide_otherwise(Known& known, const Rule& rule) {
  if (rule.cases == 2) return decide(known, rule, 1 - rule.when);
  const std::size_t number = rule.case_0 + static_cast<std::size_t>(rule.when);
  known.contradicts |= known.holds.has(number);
  known.fails.insert(number);
  known.complete = false;
}

/// The guard is false: adds what follows where there is only one reason for it.
Consequences::Reason Consequences::deny(const std::vector<Node>& nodes, std::int32_t place,
                                        Known& known) {
  while (true) {
    if (place < 0) return Reason::contradicts;
    const Rule rule = rules_[place];  // a copy: they grow below
    if (known.holds.has(rule.number)) return Reason::contradicts;
    if (known.fails.has(rule.number)) return Reason::found;
    if (rule.own) {
      known.fails.insert(rule.number);
      return Reason::found;
    }
    const Truth decided = outcome(rule, known), parent = truth(rule.parent, known);
    if (decided == Truth::unknown && parent == Truth::unknown) return Reason::open;
    known.fails.insert(rule.number);
    if (decided == Truth::no || parent == Truth::no) return Reason::found;
    if (decided == Truth::yes && parent == Truth::yes) return Reason::contradicts;
    if (decided == Truth::yes) {
      place = rule.parent;
      continue;
    }
    if (rule.decider < 0) {
      decide_otherwise(known, rule);
      return known.contradicts ? Reason::contradicts : Reason::found;
    }
    if (rule.when == 1) {
      place = rule.decider;
      continue;
    }
    add(known, of(nodes, rules_[rule.decider].guard));
    return known.contradicts ? Reason::contradicts : Reason::found;
  }
}

}  // namespace metronome::control
