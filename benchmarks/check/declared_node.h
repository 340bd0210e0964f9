// Nodes of a planned step as their ops are declared, whatever layout their tensors are stored in.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "executor/engine/observer.h"

namespace metronome::benchmarks {

struct DeclaredNode {
  Node node;
  std::vector<at::Tensor> operands;
  std::vector<at::Tensor> results;  ///< undefined where nothing reads a saved one
};

/// An op that runs channels last as the op that it runs, on tensors in the order of that; others as
/// they are. The tensors may be views of the node's.
DeclaredNode declared_node(const ObservedNode& seen);

/// The operands in the order in which the graph declares them: also of ops that map elements of
/// stored tensors.
std::vector<at::Tensor> declared_operands(const ObservedNode& seen);

/// A storage's tensor in the order that users know.
at::Tensor declared_tensor(const at::Tensor& stored, const Storage& storage);

}  // namespace metronome::benchmarks
