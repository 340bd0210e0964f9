// The life of each value in a graph and an order, for the checker of plans. It shares no code with
// the planner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/plan/schedule.h"

namespace metronome::check {

/// The place and the life of a value. Only a root, a value with bytes of its own, has a life.
struct ValueLife {
  ValueId root;            ///< the value whose bytes it views, or itself
  std::size_t offset = 0;  ///< where in the root it begins
  bool written = true;     ///< by a kernel: neither an input, a storage's old value nor a view
  bool read = false;
  int made = 0;  ///< step
  int last = 0;  ///< last step that reads it; the number of steps if it outlives them
};

/// Facts of every value. The order must be a permutation that makes values before it reads them.
class ValueLives {
 public:
  ValueLives(const ir::Graph& graph, const plan::Schedule& schedule);

  const ValueLife& operator[](ValueId id) const { return lives_.at(id); }
  const ValueLife& of_root(ValueId id) const { return lives_.at(lives_.at(id).root); }
  const std::map<ValueId, ValueLife>& all() const { return lives_; }
  /// The value that stands for a storage's old bytes, of those that are read.
  const std::map<StorageId, ValueId>& old_values() const { return old_values_; }
  /// Inputs and guard.
  static std::vector<ValueId> operands(const Node& node);

  /// f32[16] "linear".
  static std::string name(const ir::Graph& graph, ValueId id);
  /// f32[16] "linear" (steps 2 to 5).
  std::string life(ValueId id) const;

 private:
  void find_views(const std::vector<int>& step_of);
  void find_reads(const std::vector<int>& step_of);
  void read_at(ValueId id, int step);

  const ir::Graph& graph_;
  std::map<ValueId, ValueLife> lives_;
  std::map<StorageId, ValueId> old_values_;
};

}  // namespace metronome::check
