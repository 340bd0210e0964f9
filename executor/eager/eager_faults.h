// Faults of `eager`: indices that libtorch refuses, numbers that an op refuses, and numbers that
// are not finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor/engine/faults.h"
#include "graph/ir/graph.h"
#include "ops/rules/rules.h"

namespace metronome::executor::eager {

/// `pick "loss/pick" (train.cc:12): target 10 is out of range 0 to 9`, where the node looks up what
/// is not there; of several indices the least. `inputs` are on the CPU.
std::optional<std::string> stray_lookup(const Node& node, const Tensors& inputs);

/// `random {gumbel of logits} "categorical/action/random" (train.cc:12): largest logit -inf is not
/// finite`, where the node refuses a number of its operand (LimitsRule); of several the least.
std::optional<std::string> refused_number(const Node& node, const Tensors& inputs);

/// Tells whether a tensor holds a NaN or an infinity; neither if it is undefined or not floating.
NonFiniteKinds non_finite_in(const at::Tensor& tensor);

/// Numbers that are not finite, while a declared graph runs node by node.
class EagerWatch {
 public:
  EagerWatch(const ir::Graph& graph, const Memory& memory);

  /// Before a step: its inputs and storages, as `Memory` numbers them.
  void begin(const Tensors& inputs, const Tensors& storages);
  /// Returns the fault of the node whose results these are (a cuda::Blame), in words; or nothing.
  std::optional<std::string> look(std::int32_t node, const Tensors& made);

 private:
  const ir::Graph& graph_;
  const Memory& memory_;
  std::vector<std::vector<int>> makers_;  // [node]
  std::vector<NonFiniteKinds> met_;       // [node]
  std::vector<NonFiniteKinds> held_;      // [source]
};

}  // namespace metronome::executor::eager
