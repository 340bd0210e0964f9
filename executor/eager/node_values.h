// The results of nodes, and how long each is held.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "executor/eager/eager_graph.h"
#include "ops/rules/rules.h"

namespace metronome::executor::eager {

/// The results of all nodes. A value of the forward phase is released after its last use, as a
/// program's variable would be, unless a later phase, a readable or an assignment holds it. Walks
/// over the graph write and read it; users read its readables.
class NodeValues {
 public:
  /// Sets inputs, storages that are read, and constants, which are made once.
  explicit NodeValues(const EagerGraph& graph);

  at::Tensor& operator[](ValueId id) { return values_[id.node][id.output]; }
  Tensors& of(std::int32_t node) { return values_[node]; }
  /// An operand of a node of the update phase: a storage's value as it was before, where it was
  /// kept.
  const at::Tensor& operand(ValueId id);
  /// Releases the values whose last use is this node of the forward phase.
  void release_after(std::int32_t node);
  /// At the end of a step.
  void release_held();

  /// At the beginning of a step: parameters that are used behind their own update are copied.
  void begin_step();
  /// Keeps the old values of storages for what reads them after an update. `updates`: before one
  /// that comes inside the forward phase, when so many objectives have made theirs.
  void keep_old_values(std::optional<std::size_t> updates = {});
  /// Leaves out the losses of objectives that may rest.
  void keep_readables(Phases phases, std::optional<std::size_t> updates = {});
  /// The mean over ranks of a value, for those who read it and for what is made of gradients.
  bool has_mean(ValueId id) const { return means_.contains(id); }
  void set_mean(ValueId id, at::Tensor mean) { means_[id] = std::move(mean); }
  void set_readable(std::size_t index, at::Tensor value) { readables_[index] = std::move(value); }
  const at::Tensor& readable(std::size_t index) const { return readables_[index]; }

 private:
  void find_last_uses();
  void find_read_behind_update();
  /// Its bytes are a storage's, which a step changes, an input's or a constant's.
  bool outlives_step(const at::Tensor& tensor) const;

  const EagerGraph& graph_;
  std::vector<Tensors> values_;                      ///< [node][output]
  std::unordered_set<const void*> lasting_;          ///< libtorch's storages that outlive a step
  std::vector<std::vector<std::int32_t>> releases_;  ///< [node]: nodes whose last use it is
  std::vector<std::int32_t> held_;                   ///< nodes kept to the end of the step
  std::vector<std::int32_t> read_behind_update_;     ///< reads of parameters
  std::map<ValueId, at::Tensor> old_;                ///< of storages, while they change
  std::map<ValueId, at::Tensor> means_;              ///< over ranks, of this step
  Tensors readables_;
};

}  // namespace metronome::executor::eager
