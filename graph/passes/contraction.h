// A graph whose nodes are merged into groups, never into a cycle.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::passes {

/// Every node begins as a group of its own. Groups are named by numbers that a merge may retire;
/// `of` knows the present one.
class Contraction {
 public:
  explicit Contraction(const ir::Graph& graph);

  std::int32_t nodes() const { return static_cast<std::int32_t>(of_.size()); }
  std::int32_t of(std::int32_t node) const { return of_[node]; }
  /// Nodes of a group, in the graph's order.
  const std::vector<std::int32_t>& members(std::int32_t group) const { return members_[group]; }
  /// Nodes that read a node's values, run under them or wait for it, in the graph's order.
  const std::vector<std::int32_t>& readers(std::int32_t node) const { return readers_[node]; }
  /// Groups, each after those that it reads or waits for.
  std::vector<std::int32_t> order() const;

  /// Makes two groups one. Changes nothing and returns false where a value would leave the group
  /// and come back into it, or one of its nodes would wait for what comes after another of them:
  /// a group waits as one for all that its nodes wait for.
  bool merge(std::int32_t a, std::int32_t b);

 private:
  static constexpr std::int32_t kGone = -1;

  /// True where a node of group `a` waits for one of group `b`.
  bool waits(std::int32_t a, std::int32_t b) const;
  /// Makes `read_by_` name each group once, and not the group itself.
  void shorten(std::int32_t group);
  /// Marks the groups that read `first`, directly or not, and stand before `last`; false where
  /// one of them is read by `last`.
  bool mark_between(std::int32_t first, std::int32_t last);

  std::vector<std::int32_t> of_;                    // [node] its group
  std::vector<std::vector<std::int32_t>> readers_;  // [node]
  std::vector<std::vector<std::int32_t>> waits_;    // [node] those that it waits for
  std::vector<std::vector<std::int32_t>> members_;  // [group]
  // [group] a node of each group that reads it. Of what was merged since it may hold several.
  std::vector<std::vector<std::int32_t>> read_by_;
  std::vector<std::int32_t> order_;   // kGone where a merge left a place empty
  std::vector<std::int32_t> place_;   // [group] where it stands in the order
  std::vector<std::int32_t> marked_;  // [group] the last search that marked it
  std::vector<std::int32_t> listed_;  // [group] the last list that holds it
  std::int32_t lists_ = 0;
  std::int32_t search_ = 0;
};

}  // namespace metronome::passes
