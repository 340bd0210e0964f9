// Regions are decisions that guards share, as the header draws them. `unique` keeps the invariant:
// equal decisions are made once, one whose cases are all equal is not made, and the cases of a
// decision have lower numbers and older deciders. So two regions that run in the same steps have
// one number, and a comparison of numbers tells it.
//
//   join_at_once  answers for a pair of regions without a look at their deciders, if it can
//   by_case   else one pair for each case of the newest decider of the two
//   join      makes the decision of what the cases give; keeps it in `joined_`
//   meet      makes none: the first case in which both run ends it; kept in `met_`
//
// The last guard of a loop lies one step down for each iteration that may be skipped. `leads_to`
// climbs by jumps, in the logarithm of the steps. `join` keeps a stack of its own, and `meet`
// takes the longest look in a loop, so that neither recurses as deep.
#include "graph/control/regions.h"

#include <algorithm>
#include <optional>

#include "graph/ir/guarded.h"
#include "graph/rules/guards.h"

namespace metronome::control {
namespace {

/// In `of_node_`: no `Guard` makes the node. Numbers of regions begin at 0, so -1 is none of them.
constexpr Region kNone = -1;

}  // namespace

Regions::Regions(const std::vector<Node>& nodes) : nodes_(&nodes) {
  decisions_ = {{.parent = kNever, .jump = kNever}, {.parent = kAlways, .jump = kAlways}};
}

// ---- from guards to regions -------------------------------------------------------------

Region Regions::region(ValueId guard) const {
  if (!guard.present()) return kAlways;
  while (of_node_.size() <= static_cast<std::size_t>(guard.node)) {
    const Node& node = (*nodes_)[of_node_.size()];
    of_node_.push_back(node.op->as<Guard>() == nullptr ? kNone : region_of_guard(node));
  }
  if (of_node_[guard.node] != kNone) return of_node_[guard.node];
  const auto [found, is_new] = others_.try_emplace(guard, kNever);
  if (is_new) found->second = literal(guard, 1, 2);
  return found->second;
}

Region Regions::region_of_guard(const Node& guard) const {
  const Guard& rule = *guard.op->as<Guard>();
  const Region parent = rule.nested ? region(guard.inputs[1]) : kAlways;
  const ValueId decider = guard.inputs[0];
  const bool by_guard = (*nodes_)[decider.node].op->as<Guard>() != nullptr;
  return by_guard ? join({parent, region(decider), rule.when == 1})
                  : join({parent, literal(decider, rule.when, rule.cases), true});
}

Region Regions::literal(ValueId decider, std::int64_t k, std::int64_t cases) const {
  const auto next = static_cast<std::int32_t>(deciders_.size());
  const auto [found, is_new] = deciders_.try_emplace({decider, cases}, next);
  return decide(found->second, static_cast<std::size_t>(k), static_cast<std::size_t>(cases),
                kAlways);
}

Region Regions::decide(std::int32_t decider, std::size_t k, std::size_t cases,
                       Region parent) const {
  std::vector<Region> of_case(cases, kNever);
  of_case[k] = parent;
  return unique(decider, std::move(of_case));
}

Region Regions::unique(std::int32_t decider, std::vector<Region> cases) const {
  if (std::ranges::adjacent_find(cases, std::ranges::not_equal_to()) == cases.end()) {
    return cases[0];  // it does not matter how the decider comes out
  }
  const auto next = static_cast<Region>(decisions_.size());
  const auto [found, is_new] = numbers_.try_emplace({decider, cases}, next);
  if (!is_new) return found->second;
  Decision made{decider, std::move(cases), next, next};
  if (std::ranges::count(made.cases, kNever) + 1 == std::ssize(made.cases)) {
    // Jumps as in Myers, "An applicative random-access stack" (1983).
    made.parent = *std::ranges::max_element(made.cases);
    const Decision& parent = decisions_[made.parent];
    const Decision& jump = decisions_[parent.jump];
    made.depth = parent.depth + 1;
    const bool equal = parent.depth - jump.depth == jump.depth - decisions_[jump.jump].depth;
    made.jump = equal ? jump.jump : made.parent;
  }
  decisions_.push_back(std::move(made));
  return next;
}

// ---- questions -----------------------------------------------------------------------------

bool Regions::leads_to(Region a, Region b) const {
  const std::int32_t depth = decisions_[b].depth;
  while (decisions_[a].depth > depth) {
    const Decision& now = decisions_[a];
    a = decisions_[now.jump].depth >= depth ? now.jump : now.parent;
  }
  return a == b;
}

/// Both, where that needs no look at their deciders.
std::optional<Region> Regions::join_at_once(const Pair& pair) const {
  const auto [a, b, b_runs] = pair;
  if (a == kNever || b == (b_runs ? kNever : kAlways)) return kNever;
  if (b == (b_runs ? kAlways : kNever)) return a;
  if (leads_to(a, b)) return b_runs ? a : kNever;
  if (b_runs && leads_to(b, a)) return b;
  return std::nullopt;
}

std::int32_t Regions::newest(const Pair& pair) const {
  return std::max(decisions_[pair.a].decider, decisions_[pair.b].decider);
}

/// The pairs that are left in each case of the newest decider of the two.
std::vector<Regions::Pair> Regions::by_case(const Pair& pair) const {
  const Decision &one = decisions_[pair.a], &other = decisions_[pair.b];
  const std::size_t cases = (one.decider < other.decider ? other : one).cases.size();
  std::vector<Pair> left;
  for (std::size_t k = 0; k < cases; ++k) {
    left.push_back({one.decider < other.decider ? pair.a : one.cases[k],
                    other.decider < one.decider ? pair.b : other.cases[k], pair.b_runs});
  }
  return left;
}

/// Returns the region in which `a` runs, and `b` runs or does not.
Region Regions::join(const Pair& asked) const {
  const auto known = [&](const Pair& pair) {
    std::optional<Region> both = join_at_once(pair);
    if (both) return both;
    if (const auto found = joined_.find(pair.key()); found != joined_.end()) both = found->second;
    return both;
  };
  std::vector<Pair> open = {asked};  // the guards of a long loop cause no deep recursion
  while (!open.empty()) {
    const Pair pair = open.back();
    const std::size_t before = open.size();
    if (!known(pair)) {
      std::vector<Region> cases;
      for (const Pair& left : by_case(pair)) {
        if (const auto both = known(left)) {
          cases.push_back(*both);
        } else {
          open.push_back(left);
        }
      }
      if (open.size() > before) continue;
      joined_.emplace(pair.key(), unique(newest(pair), std::move(cases)));
    }
    open.pop_back();
  }
  return *known(asked);
}

/// As `join(pair) != kNever`, but makes nothing, and ends at the first case that serves.
bool Regions::meet(const Pair& asked) const {
  if (const auto both = join_at_once(asked)) return *both != kNever;
  if (!asked.b_runs && leads_to(asked.b, asked.a)) return true;  // it runs in fewer steps than `a`
  if (const auto found = met_.find(asked.key()); found != met_.end()) return found->second;
  Pair pair = asked;
  for (std::optional<bool> met; true;) {
    std::vector<Pair> left;  // that need a closer look
    for (const Pair& one : by_case(pair)) {
      const auto both = join_at_once(one);
      if (!both) left.push_back(one);
      if (both && *both != kNever) met = true;
    }
    if (left.empty() && !met) met = false;
    // The longest look is taken last and here: else a long loop would cause deep recursion.
    std::ranges::sort(left, {}, [this](const Pair& one) { return newest(one); });
    for (std::size_t i = 0; i + 1 < left.size() && !met; ++i) {
      if (meet(left[i])) met = true;
    }
    if (met) return met_[asked.key()] = *met;
    pair = left.back();
  }
}

Region Regions::all(std::span<const GuardFact> facts) const {
  Region all = kAlways;
  for (const auto& [guard, holds] : facts) all = join({all, region(guard), holds});
  return all;
}

bool Regions::possible(std::span<const GuardFact> facts) const {
  if (facts.empty()) return true;
  // One that fails comes last, so that its opposite needs not be made.
  std::vector<GuardFact> sorted(facts.begin(), facts.end());
  std::ranges::partition(sorted, &GuardFact::holds);
  const auto [guard, holds] = sorted.back();
  sorted.pop_back();
  return meet({all(sorted), region(guard), holds});
}

bool Regions::implies(std::vector<GuardFact> facts, ValueId b) const {
  if (!b.present()) return true;
  facts.push_back({b, false});
  return !possible(facts);
}

bool Regions::implies(ValueId a, ValueId b) const {
  return a == b || !b.present() || !meet({region(a), region(b), false});
}

bool Regions::exclude(ValueId a, ValueId b) const {
  if (a == b || !a.present() || !b.present()) return false;
  return !meet({region(a), region(b), true});
}

bool Regions::covers(ValueId outer, std::span<const std::vector<GuardFact>> parts) const {
  Region left = region(outer);
  for (const std::vector<GuardFact>& part : parts) left = join({left, all(part), false});
  return left == kNever;
}

std::vector<GuardFact> read_under(const Node& node, std::size_t operand) {
  std::vector<GuardFact> facts;
  if (node.guard.present()) facts.push_back({node.guard, true});
  for (const Condition& c : node.op->ask<ReadIfRule>(operand)) {
    facts.push_back({node.inputs[c.operand], c.holds});
  }
  return facts;
}

}  // namespace metronome::control
