// The calls of libtorch by which `eager` computes a node, and what they meet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "executor/eager/eager.h"
#include "executor/eager/eager_faults.h"
#include "executor/eager/eager_graph.h"
#include "executor/engine/observer.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "ops/rules/rules.h"

namespace metronome::executor::eager {

/// One node after another, by its reference: shown to the observer, and looked at for faults. Walks
/// over the graph call it.
class ReferenceCalls {
 public:
  ReferenceCalls(const EagerGraph& graph, const EagerOptions& options);

  void begin_step();
  /// A node's results. An index out of range is libtorch's to refuse, but in Metronome's words;
  /// only a guard's selector is clamped, and told of. An op's own limits are refused here.
  Tensors call(std::int32_t index, const Tensors& inputs);

  /// The first fault of the first step that met one.
  const std::optional<std::string>& fault() const { return fault_; }
  /// Whether numbers that are not finite are looked for, as none was met yet.
  bool looks() const { return watch_ && !fault_; }
  void note(std::optional<std::string> fault) { fault_ = std::move(fault); }

 private:
  RunError refusal(const std::string& fault) const;
  ObservedNode make_observed_node(std::int32_t index, const Tensors& inputs,
                                  const Tensors& made) const;
  bool clamps(const Guard& guard, const Tensors& inputs) const;

  const EagerGraph& graph_;
  std::shared_ptr<Observer> observer_;
  std::optional<EagerWatch> watch_;
  std::optional<std::string> fault_;
};

}  // namespace metronome::executor::eager
