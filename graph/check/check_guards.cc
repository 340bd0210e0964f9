#include "graph/check/check_guards.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "graph/ir/guarded.h"

namespace metronome::check {
namespace {

using Bits = std::vector<std::uint64_t>;

bool has(const Bits& bits, std::size_t bit) {
  return bit / 64 < bits.size() && (bits[bit / 64] >> (bit % 64) & 1) != 0;
}
void insert(Bits& bits, std::size_t bit) {
  if (bit / 64 >= bits.size()) bits.resize(bit / 64 + 1);
  bits[bit / 64] |= std::uint64_t{1} << (bit % 64);
}
void insert(Bits& bits, const Bits& more) {
  if (bits.size() < more.size()) bits.resize(more.size());
  for (std::size_t word = 0; word < more.size(); ++word) bits[word] |= more[word];
}
/// The first bit that is in `bits` and not in `others`.
std::optional<std::size_t> first_beyond(const Bits& bits, const Bits& others) {
  for (std::size_t word = 0; word < bits.size(); ++word) {
    const std::uint64_t rest = bits[word] & ~(word < others.size() ? others[word] : 0);
    if (rest != 0) return 64 * word + static_cast<std::size_t>(std::countr_zero(rest));
  }
  return std::nullopt;
}
/// True where a decider that both know comes out in two ways.
template <class Outcomes>
bool differ(const Outcomes& a, const Outcomes& b) {
  const std::size_t words = std::min(a.known.size(), b.known.size());
  const auto word_of = [](const Bits& bits, std::size_t word) {
    return word < bits.size() ? bits[word] : 0;
  };
  for (std::size_t word = 0; word < words; ++word) {
    const std::uint64_t both = a.known[word] & b.known[word];
    if ((both & (word_of(a.is, word) ^ word_of(b.is, word))) != 0) return true;
  }
  return false;
}
std::size_t cases_of(const std::pair<ValueId, std::int64_t>& decider) {
  return decider.second == 0 ? 2 : static_cast<std::size_t>(decider.second);
}

}  // namespace

GuardFacts::GuardFacts(const ir::Graph& graph, bool skips)
    : graph_(graph), of_node_(graph.nodes().size(), -1) {
  if (!skips) return;
  std::map<ValueId, int> places;
  for (std::size_t i = 0; i < of_node_.size(); ++i) {
    const ValueId guard = graph.nodes()[i].guard;
    if (!guard.present()) continue;
    const auto [found, is_new] = places.emplace(guard, static_cast<int>(guards_.size()));
    if (is_new) guards_.push_back(guard);
    of_node_[i] = found->second;
  }
  for (std::size_t a = 0; a < guards_.size(); ++a) asked_.emplace_back(a, Asked::never);
  rule_at_.resize(guards_.size());
}

bool GuardFacts::exclude(int a, int b) const {
  if (a < 0 || b < 0 || a == b) return false;
  Asked& asked = asked_[std::max(a, b)][std::min(a, b)];
  if (asked == Asked::never) asked = find_exclusion(a, b) ? Asked::apart : Asked::together;
  return asked == Asked::apart;
}

bool GuardFacts::find_exclusion(int a, int b) const {
  const auto rule_at = [&](int guard) -> const Rule& {
    const Rule*& known = rule_at_[static_cast<std::size_t>(guard)];
    if (known == nullptr) known = &rule(guards_[guard]);
    return *known;
  };
  const Rule &one = rule_at(a), &other = rule_at(b);
  if (one.never.empty() && other.never.empty()) {
    return one.contradicts || other.contradicts || differ(one.outcomes, other.outcomes);
  }
  Rule both = one;
  require(both, other);
  return both.contradicts || !possible(both.never, both.outcomes);
}

std::size_t GuardFacts::number(const Decider& decider) const {
  const auto [found, is_new] = numbers_.emplace(decider, decider_of_.size());
  if (is_new) decider_of_.resize(decider_of_.size() + cases_of(decider), decider);
  return found->second;
}

void GuardFacts::set(Outcomes& outcomes, const Decider& decider, std::int64_t outcome) const {
  const std::size_t first = number(decider);
  for (std::size_t k = 0; k < cases_of(decider); ++k) insert(outcomes.known, first + k);
  insert(outcomes.is, first + static_cast<std::size_t>(outcome));
}

/// What must hold for a guard, its parents' rules included.
const GuardFacts::Rule& GuardFacts::rule(ValueId guard) const {
  // Parents first, so that a long chain causes no deep recursion.
  std::vector<ValueId> chain = {guard};
  while (!rules_.contains(chain.back())) {
    const Guard* op = graph_.node(chain.back()).op->as<Guard>();
    if (op == nullptr || !op->nested) break;
    chain.push_back(graph_.node(chain.back()).inputs[1]);
  }
  for (; !chain.empty(); chain.pop_back()) {
    if (!rules_.contains(chain.back())) rules_.emplace(chain.back(), rule_of(chain.back()));
  }
  return rules_.at(guard);
}

GuardFacts::Rule GuardFacts::rule_of(ValueId guard) const {
  Rule rule;
  const Node& node = graph_.node(guard);
  const Guard* op = node.op->as<Guard>();
  if (op == nullptr) {
    set(rule.outcomes, {guard, 0}, 1);
    return rule;
  }
  if (op->nested) rule = this->rule(node.inputs[1]);
  const ValueId decider = node.inputs[0];
  if (graph_.node(decider).op->as<Guard>() == nullptr) {
    Rule own;
    set(own.outcomes, {decider, op->cases}, op->when);
    require(rule, own);
  } else if (op->when == 1) {
    require(rule, this->rule(decider));
  } else {
    rule.never.insert(decider);
  }
  settle(rule);
  return rule;
}

/// Where all but one outcome that make a guard true are known, and it must be false, that one is
/// not so: with two cases it is the other.
void GuardFacts::settle(Rule& rule) const {
  for (bool again = true; again;) {
    again = false;
    for (const ValueId guard : std::set<ValueId>(rule.never)) {
      const Rule& other = this->rule(guard);
      std::size_t open = 0;
      const Truth of_guard = truth(guard, rule.outcomes, open);
      if (of_guard == Truth::yes) rule.contradicts = true;
      if (of_guard == Truth::open) {
        const Decider decider = decider_of_[open];
        Outcomes more = rule.outcomes;
        const std::size_t first = number(decider);
        set(more, decider, has(other.outcomes.is, first) ? 1 : 0);
        const bool only = other.never.empty() && cases_of(decider) == 2 &&
                          has(other.outcomes.known, first) &&
                          !first_beyond(other.outcomes.known, more.known);
        if (!only) continue;
        rule.outcomes = std::move(more);
      }
      rule.never.erase(guard);
      again = true;
    }
  }
}

void GuardFacts::require(Rule& rule, const Rule& also) {
  rule.contradicts |= also.contradicts || differ(rule.outcomes, also.outcomes);
  insert(rule.outcomes.known, also.outcomes.known);
  insert(rule.outcomes.is, also.outcomes.is);
  rule.never.insert(also.never.begin(), also.never.end());
}

/// Where the known outcomes leave it open, `open` becomes the first bit of a decider that would say
/// more.
GuardFacts::Truth GuardFacts::truth(ValueId guard, const Outcomes& known, std::size_t& open) const {
  const Rule& rule = this->rule(guard);
  if (rule.contradicts || differ(rule.outcomes, known)) return Truth::no;
  Truth result = Truth::yes;
  if (const auto missing = first_beyond(rule.outcomes.known, known.known)) {
    result = Truth::open;
    open = *missing;
  }
  for (const ValueId other : rule.never) {
    std::size_t unknown = 0;
    const Truth of_other = truth(other, known, unknown);
    if (of_other == Truth::yes) return Truth::no;
    if (of_other == Truth::no) continue;
    result = Truth::open;
    open = unknown;
  }
  return result;
}

/// True where deciders whose outcomes are not known can make all of `never` false.
bool GuardFacts::possible(const std::set<ValueId>& never, const Outcomes& known) const {
  bool undecided = false;
  std::size_t open = 0;
  for (const ValueId guard : never) {
    const Truth of_guard = truth(guard, known, open);
    if (of_guard == Truth::yes) return false;
    undecided |= of_guard == Truth::open;
  }
  if (!undecided) return true;
  const Decider decider = decider_of_[open];
  for (std::size_t outcome = 0; outcome < cases_of(decider); ++outcome) {
    Outcomes tried = known;
    set(tried, decider, static_cast<std::int64_t>(outcome));
    if (possible(never, tried)) return true;
  }
  return false;
}

std::size_t GuardFacts::heaviest(Held held) const {
  std::size_t sum = 0;
  while (!held.empty()) {
    // The guards linked to the last one by exclusions. All others are chosen independently.
    Held part = {held.back()};
    held.pop_back();
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto apart = std::partition(held.begin(), held.end(), [&](const auto& other) {
        return !exclude(part[i].first, other.first);
      });
      part.insert(part.end(), apart, held.end());
      held.erase(apart, held.end());
    }
    sum += heaviest_of_part(std::move(part));
  }
  return sum;
}

/// Of branches the heaviest is held; else the one that excludes most others is held or not.
std::size_t GuardFacts::heaviest_of_part(Held part) const {
  std::vector<std::size_t> excludes;
  for (const auto& guard : part) {
    excludes.push_back(std::count_if(part.begin(), part.end(), [&](const auto& other) {
      return exclude(guard.first, other.first);
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
  const std::size_t without = heaviest(part);
  std::erase_if(part,
                [&, guard = guard](const auto& other) { return exclude(guard, other.first); });
  return std::max(without, bytes + heaviest(std::move(part)));
}

}  // namespace metronome::check
