// Each target has a list of contributions, at most one for each set of facts: `add` drops facts
// that follow from the others or from the target's guard, and adds up what has the same facts. `of`
// joins the list when nothing is added any more:
//
//   y = x + choose(s, {f(x), g(x)})    of x: d+ {}, dg {g ran}, df {f ran}    {}: in any case
//     one of df and dg counts, never both:  merge(f ran, df, dg) + d+
//
//   y = x.loop(f(w)).until(halt, 3)    of w: d2 {g2}, d1 {g1}, d0 {}          g2 implies g1
//     d2 and d1 may both count:  accumulate_if(d2 if g2, else zero; d1; g1) + d0
//
// The last operand of a merge has no guard, so `merge` puts there the contribution with the most
// facts to deny, as each of those takes a node.
#include "graph/passes/training/gradient_sums.h"

#include <algorithm>
#include <utility>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"

namespace metronome::passes {

bool GradientSums::counts(ValueId target, std::vector<control::GuardFact> when) const {
  when.push_back({graph_.node(target).guard, true});
  return regions_.possible(when);
}

void GradientSums::add(ValueId target, Value contribution, std::vector<control::GuardFact> when) {
  if (!counts(target, when)) return;
  const ValueId outer = graph_.node(target).guard;
  when = drop_implied(target, std::move(when));
  std::vector<Contribution>& parts = pending_[target];
  const auto same = std::find_if(parts.begin(), parts.end(),
                                 [&](const Contribution& part) { return part.when == when; });
  if (same == parts.end()) {
    parts.push_back({contribution, std::move(when)});
    return;
  }
  const ValueId before = std::exchange(emitter_.guard, guard_of(outer, when).id());
  same->value = apply(Accumulate{}, {same->value, contribution}, Line{});
  emitter_.guard = before;
}

Value GradientSums::of(ValueId target) {
  if (const auto found = done_.find(target); found != done_.end()) return found->second;
  const std::vector<Contribution>& parts = pending_[target];
  if (parts.empty()) return {};
  const Node node = graph_.node(target);
  PassScope scope(emitter_, node.path.get() + ".grad", node.line, node.guard);
  std::vector<Contribution> conditional;
  Value always;
  for (const Contribution& part : parts) {
    if (part.when.empty()) {
      always = part.value;
    } else {
      conditional.push_back(part);
    }
  }
  Value sum;
  if (conditional.empty()) {
    sum = always;
  } else if (conditional.size() > 1 && partition(node.guard, conditional)) {
    sum = merge(node.guard, std::move(conditional));
    if (always.present()) sum = apply(Accumulate{}, {sum, always}, Line{});
  } else {
    sum = accumulate(node.guard, parts);
  }
  return done_[target] = sum;
}

std::vector<control::GuardFact> GradientSums::drop_implied(
    ValueId target, std::vector<control::GuardFact> facts) const {
  std::sort(facts.begin(), facts.end());
  facts.erase(std::unique(facts.begin(), facts.end()), facts.end());
  const ValueId outer = graph_.node(target).guard;
  for (std::size_t i = 0; i < facts.size();) {
    std::vector<control::GuardFact> without = facts;
    without[i].holds = !without[i].holds;
    without.push_back({outer, true});
    if (regions_.possible(without)) {
      ++i;
    } else {
      facts.erase(facts.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return facts;
}

Value GradientSums::guard_of(ValueId outer, const std::vector<control::GuardFact>& facts) const {
  Value guard = outer.present() ? emitter_.value(outer) : Value();
  const auto id = [&] { return guard.present() ? guard.id() : ValueId{}; };
  for (const auto& [fact, holds] : facts) {
    if (!holds) continue;
    if (regions_.implies(fact, id())) {
      guard = emitter_.value(fact);
    } else if (!regions_.implies(id(), fact)) {
      guard = make_guard(emitter_.value(fact), 1, 2, guard, Line{});
    }
  }
  for (const auto& [fact, holds] : facts) {
    if (!holds) guard = make_guard(emitter_.value(fact), 0, 2, guard, Line{});
  }
  return guard;
}

bool GradientSums::partition(ValueId outer, const std::vector<Contribution>& parts) const {
  std::vector<std::vector<control::GuardFact>> facts;
  for (const Contribution& part : parts) {
    for (const std::vector<control::GuardFact>& other : facts) {
      std::vector<control::GuardFact> both = part.when;
      both.insert(both.end(), other.begin(), other.end());
      both.push_back({outer, true});
      if (regions_.possible(both)) return false;
    }
    facts.push_back(part.when);
  }
  return regions_.covers(outer, facts);
}

Value GradientSums::merge(ValueId outer, std::vector<Contribution> parts) const {
  // The last contribution, which is left where no other holds, needs no guard of its own. It is the
  // one whose guard would cost most: each guard that is denied takes a node.
  const auto cost = [](const Contribution& part) {
    const auto denied = std::count_if(part.when.begin(), part.when.end(),
                                      [](const control::GuardFact& fact) { return !fact.holds; });
    return std::pair(denied, part.when.size());
  };
  const auto last = std::max_element(
      parts.begin(), parts.end(),
      [&](const Contribution& a, const Contribution& b) { return cost(a) < cost(b); });
  std::rotate(last, last + 1, parts.end());
  Values operands;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    operands.insert(operands.end(), {guard_of(outer, parts[i].when), parts[i].value});
  }
  operands.push_back(parts.back().value);
  return apply(make_op(Merge{static_cast<int>(parts.size()) - 1, true}), operands, Line{})[0];
}

Value GradientSums::accumulate(ValueId outer, const std::vector<Contribution>& parts) const {
  Value sum;
  for (const Contribution& part : parts) {
    const Value guard = part.when.empty() ? Value() : guard_of(outer, part.when);
    if (!sum.present()) {
      sum = guard.present() ? apply(Merge{1, false}, {guard, part.value}, Line{}) : part.value;
    } else {
      sum = guard.present() ? apply(AccumulateIf{}, {sum, part.value, guard}, Line{})
                            : apply(Accumulate{}, {sum, part.value}, Line{});
    }
  }
  return sum;
}

}  // namespace metronome::passes
