// Which guards can be true in one step, for the checker of plans. It shares no code with the
// planner: it tries the outcomes of what decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace metronome {

/// Guards of a graph's nodes, numbered; -1 is "always".
class GuardFacts {
 public:
  /// Bytes that are held under a guard.
  using Held = std::vector<std::pair<int, std::size_t>>;

  /// Where the target does not skip nodes, none is guarded.
  GuardFacts(const Graph& graph, bool skips);

  int of(std::int32_t node) const { return of_node_[node]; }
  /// True where no step has both.
  bool exclude(int a, int b) const { return a >= 0 && b >= 0 && excluded_[a][b]; }
  /// The most bytes that are held under guards of which no two exclude each other.
  std::size_t heaviest(Held held) const;

 private:
  /// What decides, and among how many cases; 0 where it is a guard of no rule, itself.
  using Decider = std::pair<ValueId, std::int64_t>;
  using Outcomes = std::map<Decider, std::int64_t>;
  /// A guard is true where all outcomes are so and all of `never` are false.
  struct Rule {
    Outcomes outcomes;
    std::set<ValueId> never;
    bool contradicts = false;  ///< itself: it is never true
  };
  enum class Truth { no, yes, open };

  std::size_t heaviest_of_part(Held part) const;
  const Rule& rule(ValueId guard);
  static void require(Rule& rule, const Rule& also);
  Truth truth(ValueId guard, const Outcomes& known, Decider& open);
  bool possible(const std::set<ValueId>& never, Outcomes& known);

  const Graph& graph_;
  std::vector<int> of_node_;
  std::map<ValueId, Rule> rules_;
  std::vector<std::vector<bool>> excluded_;
};

}  // namespace metronome
