// Guards as numbers, and which of them can never both be true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
    return a >= 0 && b >= 0 && has(excluded_[a], b);
  }
  std::int32_t guards() const { return static_cast<std::int32_t>(excluded_.size()); }

 private:
  friend class HeaviestHeld;
  /// A set of guards that do not exclude each other.
  struct Heaviest {
    std::size_t weight = 0;
    std::vector<std::int32_t> guards;  ///< those that weigh anything
  };
  using Bits = std::vector<std::uint64_t>;  // one for each guard
  static bool has(const Bits& bits, std::int32_t guard) {
    return (bits[static_cast<std::size_t>(guard) / 64] >> (guard % 64) & 1) != 0;
  }
  Bits connected(std::int32_t guard, const Bits& among, bool by_exclusions) const;
  void choose(Bits open, std::span<const std::size_t> weights, Heaviest& chosen) const;
  Heaviest with_or_without(Bits part, std::span<const std::size_t> weights) const;

  std::vector<Bits> excluded_;  // [guard]
};

/// Of all sets of guards that do not exclude each other, one that weighs most, while weights change
/// guard by guard. A change takes the time of the guards that the changed one excludes; what
/// excludes nothing that weighs anything is only summed.
class HeaviestHeld {
 public:
  explicit HeaviestHeld(const Exclusions& excludes);

  /// So much more under a guard; wraps where it is less, but no weight falls below zero.
  void add(std::int32_t guard, std::size_t weight);
  std::size_t weight();
  /// Those that weigh anything; sorted.
  std::vector<std::int32_t> guards();

 private:
  void begin(std::int32_t guard);
  void end(std::int32_t guard);

  const Exclusions& excludes_;
  std::vector<std::size_t> weights_;    // [guard]
  std::vector<std::int32_t> excluded_;  // [guard] how many it excludes of those that weigh anything
  Exclusions::Bits tangled_;            // those that weigh anything, and exclude such
  std::size_t loose_ = 0;               // what the others weigh
  bool changed_ = false;                // since `chosen_` was found
  Exclusions::Heaviest chosen_;         // of the tangled ones
};

/// The guards of a graph's nodes that exclude another one, numbered in node order.
struct NumberedGuards {
  std::vector<std::int32_t> of_node;  ///< [node] the number of its guard, or -1
  Exclusions excludes;
};

/// None, where `settings` do not say that the target skips nodes.
NumberedGuards number_guards(const std::vector<Node>& nodes, const Settings& settings);

}  // namespace metronome::control
