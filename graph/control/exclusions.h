// Guards as numbers, which of them can never both be true, and the heaviest that can.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ir/node.h"
#include "graph/ir/settings.h"

namespace metronome::control {

/// Pairs of guards of which no step has both. The number -1 is "in any case": nothing excludes it.
class Exclusions {
 public:
  Exclusions() = default;
  explicit Exclusions(std::int32_t guards);

  void add(std::int32_t a, std::int32_t b);
  bool operator()(std::int32_t a, std::int32_t b) const {
    return a >= 0 && b >= 0 && std::ranges::binary_search(excluded_[a], b);
  }
  /// All that a guard excludes, ascending.
  const std::vector<std::int32_t>& of(std::int32_t guard) const { return excluded_[guard]; }
  std::int32_t guards() const { return static_cast<std::int32_t>(excluded_.size()); }
  /// A number for each set of guards that pairs tie together: below `guards()`.
  std::int32_t tied(std::int32_t guard) const { return tied_[guard]; }

 private:
  std::vector<std::vector<std::int32_t>> excluded_;  // [guard] ascending
  std::vector<std::int32_t> tied_;                   // [guard]
  std::vector<std::vector<std::int32_t>> ties_;      // [tied] its guards
};

/// The heaviest set of guards that do not exclude each other, while weights change guard by guard.
/// A change takes the time of the guards that are tied to the changed one.
class HeaviestGuards {
 public:
  explicit HeaviestGuards(const Exclusions& excludes);

  /// So much more under a guard; wraps where it is less, but no weight falls below zero.
  void add(std::int32_t guard, std::size_t weight);
  std::size_t weight();
  /// Those that weigh anything; sorted.
  std::vector<std::int32_t> guards();

 private:
  struct GuardSet {
    std::size_t weight = 0;
    std::vector<std::int32_t> guards = {};
  };
  /// Some guards of which those that are tied together are chosen apart.
  struct TiedGuards {
    std::vector<std::int32_t> held = {};  ///< those that weigh anything
    GuardSet chosen = {};
    bool changed = false;
  };
  enum class PartWeights { add_up, exclude };

  std::vector<std::vector<std::int32_t>> parts_of(std::vector<std::int32_t> held,
                                                  PartWeights parts) const;
  GuardSet choose(const std::vector<std::int32_t>& held, PartWeights parts,
                  bool whole = false) const;
  GuardSet with_or_without(std::vector<std::int32_t> held) const;

  const Exclusions& excludes_;
  std::vector<std::size_t> weights_;   // [guard]
  std::vector<TiedGuards> tied_;       // [Exclusions::tied]
  std::vector<std::int32_t> changed_;  // of them, since the last `weight`
  std::size_t weight_ = 0;
};

/// The guards of a graph's nodes that exclude another one, numbered in node order.
struct NumberedGuards {
  std::vector<std::int32_t> of_node;  ///< [node] the number of its guard, or -1
  Exclusions excludes;
};

/// None, where `settings` do not say that the target skips nodes.
NumberedGuards number_guards(const std::vector<Node>& nodes, const Settings& settings);

}  // namespace metronome::control
