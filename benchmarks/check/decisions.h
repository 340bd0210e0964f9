// Decisions that rounding may change: a relu's sign, a max pool's winner, a comparison, an order.
// Two runs of a step that round differently may decide differently near a tie, and every gradient
// before the tie is then another one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/graph.h"

namespace metronome::benchmarks {

/// True where rounding may decide something. These functions that bend are known: relu, abs, sign,
/// minimum, maximum, clamp. The others (hardshrink, ...) stand in no shipped model.
bool decides(const ir::Graph& graph, const Node& node);

/// Returns the decisions that a node makes by its floating operands, as integers or booleans: for a
/// function with a kink, numbers of its operand's shape; for a max pool, the element of its plane
/// that won; else those results, by the op's reference, that are no floating numbers.
at::Tensor decisions_of(const Node& node, const std::vector<at::Tensor>& operands);

/// The number of one node's decisions, and how many two runs made otherwise.
struct Flips {
  std::int64_t decisions = 0;
  std::int64_t flipped = 0;
  /// The largest difference, between the two runs, of an element that decided otherwise, over the
  /// root mean square of the difference of all elements: both runs differ by forward rounding.
  double farthest = 0;
};

/// Makes `exact` (operands, f64, written to) decide as `other` does, by taking over those elements
/// of it that decide otherwise, and no others.
Flips take_decisions(const Node& node, const std::vector<at::Tensor>& exact,
                     const std::vector<at::Tensor>& other);

}  // namespace metronome::benchmarks
