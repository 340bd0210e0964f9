#include "graph/check_guards.h"

#include <algorithm>

#include "graph/guarded.h"

namespace metronome {

GuardFacts::GuardFacts(const Graph& graph, bool skips)
    : graph_(graph), of_node_(graph.nodes().size(), -1) {
  if (!skips) return;
  std::vector<ValueId> guards;
  std::map<ValueId, int> numbers;
  for (std::size_t i = 0; i < of_node_.size(); ++i) {
    const ValueId guard = graph.nodes()[i].guard;
    if (!guard.present()) continue;
    const auto [found, is_new] = numbers.emplace(guard, static_cast<int>(guards.size()));
    if (is_new) guards.push_back(guard);
    of_node_[i] = found->second;
  }
  excluded_.assign(guards.size(), std::vector<bool>(guards.size()));
  for (std::size_t a = 0; a < guards.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      Rule both = rule(guards[a]);
      require(both, rule(guards[b]));
      excluded_[a][b] = both.contradicts || !possible(both.never, both.outcomes);
      excluded_[b][a] = excluded_[a][b];
    }
  }
}

/// What must hold for a guard, its parents' rules included.
const GuardFacts::Rule& GuardFacts::rule(ValueId guard) {
  if (const auto found = rules_.find(guard); found != rules_.end()) return found->second;
  Rule rule;
  const Node& node = graph_.node(guard);
  const Guard* op = node.op->as<Guard>();
  if (op == nullptr) {
    rule.outcomes[{guard, 0}] = 1;
    return rules_[guard] = rule;
  }
  if (op->nested) rule = this->rule(node.inputs[1]);
  const ValueId decider = node.inputs[0];
  if (graph_.node(decider).op->as<Guard>() == nullptr) {
    Rule own;
    own.outcomes[{decider, op->cases}] = op->when;
    require(rule, own);
  } else if (op->when == 1) {
    require(rule, this->rule(decider));
  } else {
    rule.never.insert(decider);
  }
  return rules_[guard] = rule;
}

void GuardFacts::require(Rule& rule, const Rule& also) {
  for (const auto& [decider, outcome] : also.outcomes) {
    const auto [found, is_new] = rule.outcomes.emplace(decider, outcome);
    rule.contradicts |= found->second != outcome;
  }
  rule.never.insert(also.never.begin(), also.never.end());
  rule.contradicts |= also.contradicts;
}

/// Where the known outcomes leave it open, `open` becomes a decider that would say more.
GuardFacts::Truth GuardFacts::truth(ValueId guard, const Outcomes& known, Decider& open) {
  const Rule& rule = this->rule(guard);
  if (rule.contradicts) return Truth::no;
  Truth result = Truth::yes;
  for (const auto& [decider, outcome] : rule.outcomes) {
    const auto found = known.find(decider);
    if (found != known.end() && found->second != outcome) return Truth::no;
    if (found != known.end()) continue;
    result = Truth::open;
    open = decider;
  }
  for (const ValueId other : rule.never) {
    Decider unknown;
    const Truth of_other = truth(other, known, unknown);
    if (of_other == Truth::yes) return Truth::no;
    if (of_other == Truth::no) continue;
    result = Truth::open;
    open = unknown;
  }
  return result;
}

/// True where deciders whose outcomes are not known can make all of `never` false.
bool GuardFacts::possible(const std::set<ValueId>& never, Outcomes& known) {
  bool undecided = false;
  Decider decider;
  for (const ValueId guard : never) {
    const Truth of_guard = truth(guard, known, decider);
    if (of_guard == Truth::yes) return false;
    undecided |= of_guard == Truth::open;
  }
  if (!undecided) return true;
  const std::int64_t cases = decider.second == 0 ? 2 : decider.second;
  for (std::int64_t outcome = 0; outcome < cases; ++outcome) {
    known[decider] = outcome;
    if (possible(never, known)) return true;
  }
  known.erase(decider);
  return false;
}

std::size_t GuardFacts::heaviest(Held held) const {
  std::size_t sum = 0;
  while (!held.empty()) {
    // What the last one excludes, what those exclude, and so on: others are chosen for themselves.
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

}  // namespace metronome
