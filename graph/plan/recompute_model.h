// How many bytes an order holds if some values are computed again: a sketch, without a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "graph/plan/recomputation.h"
#include "graph/plan/schedule.h"
#include "graph/plan/uses.h"

namespace metronome::plan {

/// The seconds that a run of a node takes.
using SecondsOfNode = std::function<double(std::int32_t node)>;

/// The running nodes of one order, by their places in it, and the roots that they make and read.
/// Values of branches that exclude each other count as if they were held together.
class RecomputeModel {
 public:
  /// `scratch_bytes` has one entry per node. `seconds` is asked for a node that might run again,
  /// once, when that is weighed.
  RecomputeModel(const ir::Graph& graph, const Schedule& schedule,
                 const std::vector<std::size_t>& scratch_bytes, SecondsOfNode seconds,
                 const Settings& settings);

  /// The roots, numbered by this model, that late nodes of a split do not find kept.
  using Dropped = std::vector<bool>;

  struct Sketch {
    std::size_t peak_bytes = 0;  ///< scratch included
    std::int32_t peak = 0;       ///< the place in the order of, or behind, the fullest moment
    std::size_t excess = 0;      ///< bytes above the limit, added up over all moments
    double seconds = 0;          ///< of the clones
  };
  /// Nodes from `split` on read clones of the `dropped` roots. A clone runs as late as it can.
  Sketch sketch(std::int32_t split, const Dropped& dropped,
                std::size_t limit = std::numeric_limits<std::size_t>::max());
  /// The same choice in words of the graph.
  Recomputation describe(std::int32_t split, const Dropped& dropped);
  /// [root] true for those of these values that may be dropped.
  Dropped dropped_of(std::int32_t split, const std::vector<ValueId>& values) const;

  std::int32_t places() const { return static_cast<std::int32_t>(nodes_.size()); }
  std::int32_t roots() const { return static_cast<std::int32_t>(roots_.size()); }
  std::size_t bytes(std::int32_t root) const { return roots_[root].bytes; }
  /// The place of the node that makes it, and the seconds of that node.
  std::int32_t made_at(std::int32_t root) const { return roots_[root].maker; }
  double seconds_of(std::int32_t root) { return seconds_at(roots_[root].maker); }
  /// The places of the nodes that read it, ascending.
  std::span<const std::int32_t> readers(std::int32_t root) const { return roots_[root].readers; }
  /// Whether late nodes of a split may read a clone of it.
  bool may_drop(std::int32_t root, std::int32_t split) const;
  /// The number of clones in the last sketch.
  std::size_t clones() const { return clone_count_; }
  /// The places behind the losses: what is kept for gradients is alive there.
  std::span<const std::int32_t> behind_losses() const { return behind_losses_; }

 private:
  struct ModelNode {
    std::int32_t node = 0;
    std::vector<std::int32_t> reads = {}, makes = {};               // roots in the arena
    std::vector<std::pair<std::int32_t, std::int32_t>> takes = {};  // made root, read root
    std::size_t scratch = 0;
    double seconds = -1;      // below 0: not asked for yet
    std::int32_t latest = 0;  // the last place before which a clone may run
    bool again = true;        // it may run a second time
  };
  struct Root {
    ValueId value;
    std::size_t bytes = 0;
    std::int32_t first = 0, maker = 0;  // places: of what makes the first part, and all of it
    bool whole = true;                  // one node makes all of it
    bool stays = false;                 // to the end, as it is assigned
    bool saved = false;                 // no bytes if nothing reads it
    bool decides = false;               // a guard, or what one reads
    std::vector<std::int32_t> readers = {};
  };
  /// A run of a node in the order with clones.
  struct Run {
    std::int32_t place = 0;
    bool clone = false;
  };
  struct Interval {
    std::int32_t begin = -1, end = -1;
  };

  void add_nodes(const ir::Graph& graph, const Uses& uses, const std::vector<std::int32_t>& order,
                 const Schedule& schedule, std::size_t alignment,
                 const std::vector<std::size_t>& scratch_bytes);
  double seconds_at(std::int32_t place);
  void find_clones(std::int32_t split, const Dropped& dropped);
  void find_runs();
  bool reads_clone(const Run& run, std::int32_t root) const {
    return (run.clone || run.place >= split_) && roots_[root].maker < split_ && (*dropped_)[root];
  }
  Interval& interval(bool clone, std::int32_t root) { return (clone ? again_ : first_)[root]; }

  SecondsOfNode seconds_;
  std::vector<ModelNode> nodes_;
  std::vector<Root> roots_;
  std::vector<std::int32_t> behind_losses_;

  // The last sketch's.
  std::int32_t split_ = 0;
  const Dropped* dropped_ = nullptr;
  std::vector<std::int32_t> clone_before_;   // [place] the place before which it runs again, or -1
  std::vector<std::int32_t> needed_before_;  // [root] the first place that reads a clone of it
  // [place] the first clone that runs before it, and the clone behind a clone there; -1: none.
  std::vector<std::int32_t> first_clone_, next_clone_;
  std::size_t clone_count_ = 0;
  std::vector<Run> runs_;
  std::vector<std::int32_t> run_of_;     // [place] its run that is no clone
  std::vector<Interval> first_, again_;  // [root] the runs that hold it, and its clone
  std::vector<std::int64_t> change_;     // [run] of bytes held
};

}  // namespace metronome::plan
