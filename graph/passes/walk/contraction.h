// A graph whose nodes are merged into groups, never into a cycle.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::passes {

/// Every node begins as a group of its own. Groups are named by numbers that a merge may retire;
/// `of` knows the present one. The graph must outlive it.
class Contraction {
 public:
  explicit Contraction(const ir::Graph& graph);

  std::int32_t nodes() const { return static_cast<std::int32_t>(of_.size()); }
  std::int32_t of(std::int32_t node) const { return of_[node]; }
  /// Nodes of a group, in the graph's order.
  const std::vector<std::int32_t>& members(std::int32_t group) const { return members_[group]; }
  /// Nodes that read a node's values, run under them or wait for it, in the graph's order.
  const std::vector<std::int32_t>& readers(std::int32_t node) const { return readers_[node]; }
  /// Groups, each after those that it reads or waits for, else where its last node stands:
  /// a x y z b, where only y reads a, becomes x z ab y.
  std::vector<std::int32_t> order() const;

  /// Makes two groups one. Changes nothing and returns false where a value would leave the group
  /// and come back into it, or one of its nodes would wait for what comes after another of them:
  /// a group waits as one for all that its nodes wait for.
  bool merge(std::int32_t a, std::int32_t b);

 private:
  /// True where a node of group `a` waits for one of group `b`.
  bool waits(std::int32_t a, std::int32_t b) const;
  /// Makes `read_by_` name each group once, and not the group itself.
  void shorten(std::int32_t group);
  /// The nodes before a node, as `readers_` has those after it.
  template <class Visit>
  void each_before(std::int32_t node, Visit visit) const;

  /// One of the two searches between groups `first` and `last`.
  struct Side {
    std::vector<std::int32_t> found = {};  // groups, without the one from which it begins
    std::size_t looked_at = 0;             // of these
    std::size_t steps = 0;
  };
  /// Looks at one more group on a side; false where it comes upon the other side.
  bool look_after(std::int32_t group, std::int32_t first, std::int32_t last, Side& after);
  bool look_before(std::int32_t group, std::int32_t first, std::int32_t last, Side& before);
  /// Finds all groups before `last` that read `first`, directly or not, or all groups after
  /// `first` that `last` reads, whichever takes fewer steps; the other side is left unfinished.
  /// False where a group is both.
  bool search_between(std::int32_t first, std::int32_t last, Side& after, Side& before);

  /// Takes groups out of the order, and puts them behind `place` as they stood to each other.
  void move_behind(std::int32_t place, std::vector<std::int32_t>& groups);
  void take_out(std::int32_t group);
  void label_anew();

  const ir::Graph& graph_;
  std::vector<std::int32_t> of_;                    // [node] its group
  std::vector<std::vector<std::int32_t>> readers_;  // [node]
  std::vector<std::vector<std::int32_t>> members_;  // [group]
  // [group] a node of each group that reads it. It may hold several nodes of a group that was
  // merged since.
  std::vector<std::vector<std::int32_t>> read_by_;
  // An order of the groups in which each comes after those that it reads: a ring, in which one
  // place more than there are groups is both ends, and labels that tell which of two comes first.
  std::vector<std::int32_t> next_, previous_;
  std::vector<std::uint64_t> label_;
  std::vector<std::int32_t> marked_;  // [group] the last search that found it, negative: from below
  std::vector<std::int32_t> listed_;  // [group] the last list that holds it
  std::int32_t lists_ = 0;
  std::int32_t search_ = 0;
};

}  // namespace metronome::passes
