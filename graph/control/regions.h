// When regions run: which guard implies which, and which exclude each other.
//
// A guard says "the decider comes out as case k, and the parent guard is true". Its region is a
// decision: of the newest decider that matters, and for each of its cases the region that is left.
// Regions that run in the same steps are one, so a region is a number.
//
//   g0 = guard(a, when 1)              b?                       not g1       b?
//   g1 = guard(b, when 0, parent g0)   0: a?     1: never                    0: a?       1: always
//                                         0: never                              0: always
//   g1 is the decision at the left        1: always                             1: never
//
// A region of which all cases but one lead to "never" is a step down in a tree: the one case leads
// to its parent, and it implies what lies on the way up. Others, as the opposite of a guard, have
// no parent. Two regions are joined case by case, the newest decider first, so that guards of one
// loop meet after a walk from the one to the other. The answers are exact for all guards.
//
// Source: Bryant, "Graph-Based Algorithms for Boolean Function Manipulation" (1986); deciders have
// as many cases as their guards say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/ir/node.h"

namespace metronome::control {

/// A guard that is true in a step, or is not. An absent guard is always true.
struct GuardFact {
  ValueId guard;
  bool holds = true;

  auto operator<=>(const GuardFact&) const = default;
};

/// The steps in which something runs: an index of `Regions`.
using Region = std::int32_t;
inline constexpr Region kNever = 0, kAlways = 1;

/// One decider, and what is left of a region in each of its cases.
struct Decision {
  std::int32_t decider = -1;       ///< its number, the newer the higher; -1: `kNever`, `kAlways`
  std::vector<Region> cases = {};  ///< [case]
  /// If all cases but one are `kNever`, `parent` is the other case, `depth` the number of such
  /// steps up to the top, and `jump` a region higher up, so that a walk takes the logarithm of the
  /// steps. Otherwise `parent` and `jump` are the region itself.
  Region parent = 0, jump = 0;
  std::int32_t depth = 0;
};

/// Reads the `Guard` nodes of a graph. A guard that no such node makes is a boolean of its own.
/// Deciders that are no guards may have any outcome; one counts once for each number of cases to
/// which guards clamp it.
class Regions {
 public:
  /// The nodes are kept, and may grow meanwhile.
  explicit Regions(const std::vector<Node>& nodes);

  /// True where all facts can hold in one step.
  bool possible(std::span<const GuardFact> facts) const;
  /// True where `b` is true in every step in which `a` is, or in which the facts hold.
  bool implies(ValueId a, ValueId b) const;
  bool implies(std::vector<GuardFact> facts, ValueId b) const;
  /// True where no step has both, and they are two.
  bool exclude(ValueId a, ValueId b) const;
  /// True where in every step in which `outer` is true all facts of one of the parts hold.
  bool covers(ValueId outer, std::span<const std::vector<GuardFact>> parts) const;

  Region region(ValueId guard) const;
  const Decision& decision(Region c) const { return decisions_[c]; }
  /// True where some step has both.
  bool meet(Region a, Region b) const { return meet({a, b, true}); }
  /// Returns the region in which the decider, which is newer than those of the parent, comes out as
  /// case `k` of `cases`, and `parent` runs.
  Region decide(std::int32_t decider, std::size_t k, std::size_t cases, Region parent) const;

 private:
  /// Two regions, and whether the second is to run or not to run.
  struct Pair {
    Region a, b;
    bool b_runs;
    std::uint64_t key() const {
      return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b) << 1 | b_runs;
    }
  };

  Region region_of_guard(const Node& guard) const;
  Region literal(ValueId decider, std::int64_t k, std::int64_t cases) const;
  Region unique(std::int32_t decider, std::vector<Region> cases) const;
  /// Whether `b` is `a` or lies on the way up from it.
  bool leads_to(Region a, Region b) const;
  std::optional<Region> join_at_once(const Pair& pair) const;
  std::vector<Pair> by_case(const Pair& pair) const;
  std::int32_t newest(const Pair& pair) const;
  Region join(const Pair& pair) const;
  bool meet(const Pair& pair) const;
  Region all(std::span<const GuardFact> facts) const;

  const std::vector<Node>* nodes_;
  // Caches of answers:
  mutable std::vector<Region> of_node_;  // of those nodes that are read, -1 where no `Guard`
  mutable std::unordered_map<ValueId, Region> others_;
  mutable std::map<std::pair<ValueId, std::int64_t>, std::int32_t> deciders_;  // and cases
  mutable std::vector<Decision> decisions_;
  mutable std::map<std::pair<std::int32_t, std::vector<Region>>, Region> numbers_;
  mutable std::unordered_map<std::uint64_t, Region> joined_;  // by key
  mutable std::unordered_map<std::uint64_t, bool> met_;
};

/// Facts under which operand `operand` of a node is read: its guard, and what the op's `read_if`
/// says.
std::vector<GuardFact> read_under(const Node& node, std::size_t operand);

}  // namespace metronome::control
