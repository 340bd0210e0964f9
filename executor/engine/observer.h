// Who looks at a step while it runs, node by node: checks that hold each kernel to something else.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/support/tensor.h"
#include "graph/ir/graph.h"

namespace metronome {

/// One node of a step. The tensors lie in host memory, copied from a device and back where that
/// runs the step, and borrow their bytes for as long as the call lasts.
struct ObservedNode {
  const ir::Graph& graph;  ///< after the target's passes, but for those that join nodes
  std::int32_t index = 0;  ///< of the node in it
  std::vector<Tensor> operands;
  std::vector<Tensor> results;  ///< saved ones last; without data where nothing reads a saved one

  const Node& node() const { return graph.nodes()[index]; }
};

/// Told of every node that has a kernel, in the order in which they run; not of one that its guard
/// skips.
class Observer {
 public:
  virtual ~Observer() = default;
  /// The operands are there, and may be written to: later readers see that, too.
  virtual void before(const ObservedNode& node) { static_cast<void>(node); }
  /// So are the results.
  virtual void after(const ObservedNode& node) { static_cast<void>(node); }
};

}  // namespace metronome
