// Several nodes of one op as one node: how the pass `batch` hands a target more work at once.
// Kernels lie in ops/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"

namespace metronome {

/// `count` instances of one op on operands of their own: inputs and outputs are those of the first,
/// then of the second, ...
struct Batch {
  static constexpr std::string_view name = "batch";
  static constexpr bool differentiable = false;

  OpPtr op;
  int count = 0;
  int inputs = 0;   ///< of one instance
  int outputs = 0;  ///< of one instance
  bool operator==(const Batch& other) const;
  bool halves() const { return true; }  ///< the op refuses what it has no kernel for
  std::string attributes() const;       ///< "adam_update x 12"
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  std::vector<InPlace> in_place() const;
};

}  // namespace metronome
