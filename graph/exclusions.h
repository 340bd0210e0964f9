// Guards as numbers, and which of them can never both be true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/settings.h"

namespace metronome {

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

  /// Of all sets of guards that do not exclude each other, one that weighs most.
  struct Heaviest {
    std::size_t weight = 0;
    std::vector<std::int32_t> guards;  ///< those that weigh anything; sorted
  };
  Heaviest heaviest(std::span<const std::size_t> weights) const;

 private:
  using Bits = std::vector<std::uint64_t>;  // one for each guard
  static bool has(const Bits& bits, std::int32_t guard) {
    return (bits[static_cast<std::size_t>(guard) / 64] >> (guard % 64) & 1) != 0;
  }
  Bits connected(std::int32_t guard, const Bits& among, bool by_exclusions) const;
  void choose(Bits open, std::span<const std::size_t> weights, Heaviest& chosen) const;
  Heaviest with_or_without(Bits part, std::span<const std::size_t> weights) const;

  std::vector<Bits> excluded_;  // [guard]
};

/// The guards of a graph's nodes that exclude another one, numbered in node order.
struct NumberedGuards {
  std::vector<std::int32_t> of_node;  ///< [node] the number of its guard, or -1
  Exclusions excludes;
};

/// None, where `settings` do not say that the target skips nodes.
NumberedGuards number_guards(const Graph& graph, const Settings& settings);

}  // namespace metronome
