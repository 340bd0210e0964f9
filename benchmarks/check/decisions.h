// Where rounding decides: a relu's sign, a max pool's winner, a comparison, an order. Two runs of a
// step that round differently may decide differently near a tie, and every gradient before it is
// then another one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/graph.h"

namespace metronome::benchmarks {

/// True where rounding may decide something. Of functions that bend, these are known: relu, abs,
/// sign, minimum, maximum. The others (clamp, leaky_relu, ...) stand in no shipped model.
bool decides(const ir::Graph& graph, const Node& node);

/// What a node that decides decides by its floating operands, as integers or booleans: for a
/// function with a kink of its operand's shape, for a max pool which element of its plane won, else
/// what of the results is no floating number, by the op's reference.
at::Tensor decisions_of(const Node& node, const std::vector<at::Tensor>& operands);

/// What became of one node's decisions.
struct Flips {
  std::int64_t decisions = 0;
  std::int64_t flipped = 0;
  /// The largest difference, between the two runs, of an element that decided otherwise, over the
  /// root mean square of the difference of all elements: forward rounding is what both differ by.
  double farthest = 0;
};

/// Makes `exact` (operands, f64, written to) decide as `other` does, by taking over those elements
/// of it that decide otherwise, and no others.
Flips take_decisions(const Node& node, const std::vector<at::Tensor>& exact,
                     const std::vector<at::Tensor>& other);

}  // namespace metronome::benchmarks
