#include "graph/control/guards.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"

namespace metronome::control {
namespace {

/// A search for outcomes of all deciders that make the facts true. Consequences come first. What
/// is left are guards that are false for one of several reasons; those with nothing in common are
/// searched apart, so that the cost of loops beside each other is their sum, not their product.
class Search {
 public:
  explicit Search(const std::vector<Node>& nodes) : nodes_(nodes) {}

  bool run(std::span<const GuardFact> facts) const {
    Known known;
    return assume({facts.begin(), facts.end()}, known) && solve(std::move(known));
  }

 private:
  /// A decider that is no guard, as its guards see it: clamped to so many cases.
  using Decider = std::pair<ValueId, std::int64_t>;
  struct Outcome {
    std::optional<std::int64_t> is;
    std::set<std::int64_t> is_not;
  };
  struct Known {
    std::map<ValueId, bool> guards;
    std::map<Decider, Outcome> deciders;
    std::vector<ValueId> denied;  ///< guards that are false, nobody knows yet why
  };
  enum class Truth : std::uint8_t { no, yes, unknown };

  static Truth truth_of(bool holds) { return holds ? Truth::yes : Truth::no; }

  const Guard* rule_of(ValueId guard) const { return nodes_[guard.node].op->as<Guard>(); }
  ValueId parent_of(ValueId guard) const {
    return rule_of(guard)->nested ? nodes_[guard.node].inputs[1] : ValueId{};
  }
  ValueId decider_of(ValueId guard) const { return nodes_[guard.node].inputs[0]; }

  Truth truth(ValueId guard, const Known& known) const {
    if (!guard.present()) return Truth::yes;
    const auto found = known.guards.find(guard);
    if (found != known.guards.end()) return truth_of(found->second);
    if (rule_of(guard) == nullptr) return Truth::unknown;
    const Truth parent = truth(parent_of(guard), known), decided = outcome(guard, known);
    if (parent == Truth::no || decided == Truth::no) return Truth::no;
    return parent == decided ? parent : Truth::unknown;
  }

  /// Whether the guard's decider came out as the guard asks.
  Truth outcome(ValueId guard, const Known& known) const {
    const Guard& rule = *rule_of(guard);
    const ValueId decider = decider_of(guard);
    if (rule_of(decider) != nullptr) {
      const Truth decided = truth(decider, known);
      if (decided == Truth::unknown) return decided;
      return truth_of((decided == Truth::yes) == (rule.when == 1));
    }
    const auto found = known.deciders.find({decider, rule.cases});
    if (found == known.deciders.end()) return Truth::unknown;
    const Outcome& known_outcome = found->second;
    if (known_outcome.is) return truth_of(*known_outcome.is == rule.when);
    if (known_outcome.is_not.contains(rule.when)) return Truth::no;
    const bool only_one_left =
        static_cast<std::int64_t>(known_outcome.is_not.size()) + 1 == rule.cases;
    return only_one_left ? Truth::yes : Truth::unknown;
  }

  /// Adds facts and all that follows; false where they contradict. `facts` is a stack.
  bool assume(std::vector<GuardFact> facts, Known& known) const {
    do {
      while (!facts.empty()) {
        const GuardFact fact = facts.back();
        facts.pop_back();
        if (!assume_one(fact, facts, known)) return false;
      }
      if (!explain(facts, known)) return false;
    } while (!facts.empty());
    return true;
  }

  bool assume_one(const GuardFact& fact, std::vector<GuardFact>& facts, Known& known) const {
    const auto [guard, holds] = fact;
    if (!guard.present()) return holds;
    const auto [found, is_new] = known.guards.emplace(guard, holds);
    if (!is_new) return found->second == holds;
    if (rule_of(guard) == nullptr) return true;  // a boolean of its own
    if (!holds) {
      known.denied.push_back(guard);
      return true;
    }
    facts.push_back({parent_of(guard), true});
    return decide(guard, true, facts, known);
  }

  /// Finds reasons of denied guards where only one is left.
  bool explain(std::vector<GuardFact>& facts, Known& known) const {
    for (bool again = true; again;) {
      again = false;
      for (const ValueId guard : std::exchange(known.denied, {})) {
        const Truth parent = truth(parent_of(guard), known), decided = outcome(guard, known);
        if (parent == Truth::no || decided == Truth::no) continue;
        if (parent == Truth::yes && decided == Truth::yes) return false;
        if (parent == Truth::unknown && decided == Truth::unknown) {
          known.denied.push_back(guard);
          continue;
        }
        if (decided == Truth::yes) {
          facts.push_back({parent_of(guard), false});
        } else if (!decide(guard, false, facts, known)) {
          return false;
        }
        again = facts.empty();  // an outcome may be the reason that others wait for
      }
    }
    return true;
  }

  /// The decider comes out as the guard asks, or not so.
  bool decide(ValueId guard, bool holds, std::vector<GuardFact>& facts, Known& known) const {
    const Guard& rule = *rule_of(guard);
    const ValueId decider = decider_of(guard);
    if (rule_of(decider) != nullptr) {
      facts.push_back({decider, (rule.when == 1) == holds});
      return true;
    }
    Outcome& outcome = known.deciders[{decider, rule.cases}];
    if (!holds) {
      outcome.is_not.insert(rule.when);
      return outcome.is != rule.when &&
             static_cast<std::int64_t>(outcome.is_not.size()) < rule.cases;
    }
    if (outcome.is.value_or(rule.when) != rule.when || outcome.is_not.contains(rule.when)) {
      return false;
    }
    outcome.is = rule.when;
    return true;
  }

  bool solve(Known known) const {
    for (const std::vector<ValueId>& group : independent(known)) {
      if (group.size() == 1 && decides_alone(group.front(), known)) continue;
      known.denied = group;
      if (!branch(known)) return false;
    }
    return true;
  }

  /// True where an outcome of the denied guard's own decider, which nobody knows, explains it: what
  /// else hangs on that decider would be in its group.
  bool decides_alone(ValueId guard, const Known& known) const {
    return rule_of(decider_of(guard)) == nullptr && outcome(guard, known) == Truth::unknown;
  }

  /// Either the parent of a denied guard is false too, or it is true and the decider is the reason.
  bool branch(const Known& known) const {
    const ValueId parent = parent_of(known.denied.front());
    for (const bool holds : {false, true}) {
      Known tried = known;
      if (assume({{parent, holds}}, tried) && solve(std::move(tried))) return true;
    }
    return false;
  }

  /// The denied guards in groups that no unknown guard or decider ties together.
  std::vector<std::vector<ValueId>> independent(const Known& known) const {
    if (known.denied.empty()) return {};
    if (known.denied.size() == 1) return {known.denied};
    std::vector<std::vector<ValueId>> groups;
    std::vector<std::set<ValueId>> depends_on;
    for (const ValueId guard : known.denied) {
      std::vector<ValueId> group = {guard};
      std::set<ValueId> unknown;
      collect_unknown(guard, known, unknown);
      for (std::size_t i = groups.size(); i-- > 0;) {
        if (std::ranges::none_of(depends_on[i], [&](ValueId v) { return unknown.contains(v); })) {
          continue;
        }
        group.insert(group.end(), groups[i].begin(), groups[i].end());
        unknown.merge(depends_on[i]);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
        depends_on.erase(depends_on.begin() + static_cast<std::ptrdiff_t>(i));
      }
      groups.push_back(std::move(group));
      depends_on.push_back(std::move(unknown));
    }
    return groups;
  }

  /// What the reasons of a denied guard may hang on.
  void collect_unknown(ValueId guard, const Known& known, std::set<ValueId>& unknown) const {
    const ValueId decider = decider_of(guard), parent = parent_of(guard);
    if (outcome(guard, known) == Truth::unknown && unknown.insert(decider).second &&
        rule_of(decider) != nullptr) {
      collect_unknown(decider, known, unknown);
    }
    if (truth(parent, known) == Truth::unknown && unknown.insert(parent).second &&
        rule_of(parent) != nullptr) {
      collect_unknown(parent, known, unknown);
    }
  }

  const std::vector<Node>& nodes_;
};

}  // namespace

bool possible(const std::vector<Node>& nodes, Consequences& consequences,
              std::span<const GuardFact> facts) {
  if (const auto known = consequences.possible(nodes, facts)) return *known;
  return Search(nodes).run(facts);
}

bool Guards::possible(std::span<const GuardFact> facts) const {
  return control::possible(*nodes_, consequences_, facts);
}

bool Guards::implies(std::vector<GuardFact> facts, ValueId b) const {
  if (!b.present()) return true;
  facts.push_back({b, false});
  return !possible(facts);
}

bool Guards::implies(ValueId a, ValueId b) const {
  if (a == b || !b.present()) return true;
  return !possible(std::array{GuardFact{a, true}, GuardFact{b, false}});
}

bool Guards::exclude(ValueId a, ValueId b) const {
  if (a == b || !a.present() || !b.present()) return false;
  return !possible(std::array{GuardFact{a, true}, GuardFact{b, true}});
}

std::vector<GuardFact> read_under(const Node& node, std::size_t operand) {
  std::vector<GuardFact> facts;
  if (node.guard.present()) facts.push_back({node.guard, true});
  for (const Condition& c : node.op->read_if(operand)) {
    facts.push_back({node.inputs[c.operand], c.holds});
  }
  return facts;
}

}  // namespace metronome::control
