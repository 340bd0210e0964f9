// Rules that back ends need of an op that is in no list of ops/ops.h; ops/own/own_ops.h makes them
// from the op's type.
#pragma once

#include <span>
#include <string>
#include <typeindex>
#include <vector>

#include "graph/ir/op.h"
#include "ops/rules/own_ops.h"
#include "ops/rules/rules.h"

namespace metronome {

/// A CPU's rules of one op (ops/cpu/launch.h).
struct CpuRules {
  CpuKernel (*bind)(const Op& op, const CpuLaunch& launch) = nullptr;
  std::vector<Candidate> (*candidates)(const Op& op, const CpuQuery& query) = nullptr;
  /// Operands of about `share` of the work (0 to 1), on which candidates rank as on these: fewer
  /// images, rows, products or sums. Null: none are known.
  Types (*sample)(const Op& op, std::span<const Type> inputs, double share) = nullptr;
};

/// A device's rules of one op (ops/cuda/launch.h).
struct CudaRules {
  void (*record)(const Op& op, const CudaLaunch& launch) = nullptr;
  std::vector<Candidate> (*candidates)(const Op& op, const CudaQuery& query) = nullptr;
  std::string (*map_source)(const Op& op, const MapSource& source) = nullptr;  ///< or null
};

/// One op of one's own, with its rules; a rule that is null is absent.
struct OwnOp {
  std::type_index kind;  ///< Op::kind
  CpuRules cpu = {};
  CudaRules cuda = {};
  Tensors (*reference)(const Op& op, const Tensors& inputs) = nullptr;
};

}  // namespace metronome
