// Which guards can be true in one step, for the checker of plans. It shares no code with the
// planner: it asks which outcomes the deciders must have, and tries them all if that is open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::check {

/// Guards of a graph's nodes, numbered; -1 is "always".
class GuardFacts {
 public:
  /// Bytes that are held under a guard.
  using Held = std::vector<std::pair<int, std::size_t>>;

  /// If the target does not skip nodes, none is guarded.
  GuardFacts(const ir::Graph& graph, bool skips);

  int of(std::int32_t node) const { return of_node_[node]; }
  /// True if no step has both.
  bool exclude(int a, int b) const;
  /// The most bytes that a set of guards holds, no two of which exclude each other.
  std::size_t heaviest(Held held) const;

 private:
  /// A value that decides, clamped to so many cases; or a boolean guard without a rule, with 0.
  using Decider = std::pair<ValueId, std::int64_t>;
  /// Of each decider as many bits as it has cases, one after the other.
  using Bits = std::vector<std::uint64_t>;
  /// How some deciders come out.
  struct Outcomes {
    Bits known;  ///< all cases of those deciders
    Bits is;     ///< the case that it is
  };
  /// A guard is true if all outcomes are so and all of `never` are false.
  struct Rule {
    Outcomes outcomes;
    std::set<ValueId> never;
    bool contradicts = false;  ///< itself: it is never true
  };
  enum class Truth { no, yes, open };
  enum class Asked : std::uint8_t { never, apart, together };

  std::size_t heaviest_of_part(Held part) const;
  bool find_exclusion(int a, int b) const;
  const Rule& rule(ValueId guard) const;
  Rule rule_of(ValueId guard) const;
  void settle(Rule& rule) const;
  std::size_t number(const Decider& decider) const;
  void set(Outcomes& outcomes, const Decider& decider, std::int64_t outcome) const;
  static void require(Rule& rule, const Rule& also);
  Truth truth(ValueId guard, const Outcomes& known, std::size_t& open) const;
  bool possible(const std::set<ValueId>& never, const Outcomes& known) const;

  const ir::Graph& graph_;
  std::vector<int> of_node_;
  std::vector<ValueId> guards_;
  // What was asked is kept.
  mutable std::map<Decider, std::size_t> numbers_;
  mutable std::vector<Decider> decider_of_;  // [bit]
  mutable std::map<ValueId, Rule> rules_;
  mutable std::vector<const Rule*> rule_at_;       // [number] in rules_; null: not asked yet
  mutable std::vector<std::vector<Asked>> asked_;  // [a][b], a > b
};

}  // namespace metronome::check
