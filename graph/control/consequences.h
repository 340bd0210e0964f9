// What follows where guards are true or false: of other guards, and of what decides them.
//
// Facts are numbered: "guard g is true", "decider d comes out as case k of n". What is known is two
// sets of such numbers, those that hold and those that do not, so that what several guards say
// together is a union, and a contradiction is what two sets have in common.
//
//   g0 = guard(d0, when 1)                       g1: {g0, g1, d0 is 1, d1 is 0} hold,
//   g1 = guard(d1, when 0, parent g0)                {d0 is 0, d1 is 1} do not
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/ir/guarded.h"
#include "graph/ir/node.h"

namespace metronome::control {

/// A guard that is true in a step, or is not. An absent guard is always true.
struct GuardFact {
  ValueId guard;
  bool holds = true;

  auto operator<=>(const GuardFact&) const = default;
};

/// A set of numbers from 0 on.
class NumberSet {
 public:
  bool has(std::size_t number) const {
    return number / 64 < words_.size() && (words_[number / 64] >> (number % 64) & 1) != 0;
  }
  void insert(std::size_t number) {
    if (number / 64 >= words_.size()) words_.resize(number / 64 + 1);
    words_[number / 64] |= std::uint64_t{1} << (number % 64);
  }
  void insert(const NumberSet& others);
  void remove(const NumberSet& others);
  bool meets(const NumberSet& others) const;
  /// Ascending.
  std::vector<std::size_t> all() const;

 private:
  std::vector<std::uint64_t> words_;
};

/// What is known in a step.
struct Known {
  NumberSet holds, fails;
  bool contradicts = false;  ///< itself: there is no such step
  /// False where a guard is false for one of several reasons, or a decider of many cases comes out
  /// as none of some: more may follow than is known.
  bool complete = true;
};

/// Reads the `Guard` nodes of a graph, whose nodes may grow meanwhile. What has been asked once is
/// kept: a call takes the time of the facts that it adds and of a union of sets.
class Consequences {
 public:
  /// Where the guard, which is present, is true.
  const Known& of(const std::vector<Node>& nodes, ValueId guard);
  /// True where all facts can hold in one step; absent where that takes a search.
  std::optional<bool> possible(const std::vector<Node>& nodes, std::span<const GuardFact> facts);

 private:
  enum class Truth : std::uint8_t { no, yes, unknown };
  enum class Reason : std::uint8_t { contradicts, found, open };

  /// What a guard's node says, so that walks along parents look up no node.
  struct Rule {
    ValueId guard;
    std::size_t number = 0;     ///< of "it is true"
    bool own = true;            ///< a boolean of its own: nothing below is said
    std::int32_t parent = -1;   ///< its place in `rules_`
    std::int32_t decider = -1;  ///< its place, where it is a guard
    std::size_t case_0 = 0;     ///< else the number of its case 0; the others follow
    std::int64_t when = 0;
    std::int64_t cases = 0;
  };

  /// Its place in `rules_`.
  std::int32_t place_of(const std::vector<Node>& nodes, ValueId guard);
  Rule rule_of(const std::vector<Node>& nodes, ValueId guard);

  Truth truth(std::int32_t place, const Known& known) const;
  Truth outcome(const Rule& rule, const Known& known) const;
  static void add(Known& known, const Known& more);
  static void decide(Known& known, const Rule& rule, std::int64_t when);
  static void decide_otherwise(Known& known, const Rule& rule);
  Reason deny(const std::vector<Node>& nodes, std::int32_t place, Known& known);

  std::vector<Rule> rules_;  // each after those that it names
  std::unordered_map<ValueId, std::int32_t> places_;
  std::map<std::pair<ValueId, std::int64_t>, std::size_t> deciders_;  // and cases: case 0
  std::size_t next_ = 0;
  std::unordered_map<ValueId, Known> known_;
};

}  // namespace metronome::control
