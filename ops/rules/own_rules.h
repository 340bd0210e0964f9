// Ops that are in no list of ops/ops.h: what back ends know of each. A plain value, given to
// `compile`; ops/own/own_ops.h makes it from the ops' types.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <typeindex>
#include <vector>

#include "graph/ir/op.h"
#include "ops/rules/rules.h"

namespace metronome {

/// A CPU's rules of one op (ops/cpu/launch.h).
struct CpuRules {
  CpuKernel (*bind)(const Op& op, const CpuLaunch& launch) = nullptr;
  std::vector<Candidate> (*candidates)(const Op& op, const CpuQuery& query) = nullptr;
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

/// Several; each once, in the order in which they were given.
class OwnOps {
 public:
  OwnOps() = default;
  OwnOps(std::initializer_list<OwnOp> ops);

  /// Null for an op that is not among them.
  const OwnOp* find(const Op& op) const;
  std::span<const OwnOp> all() const { return ops_; }
  /// Both.
  friend OwnOps operator+(OwnOps a, const OwnOps& b);

 private:
  void add(const OwnOp& op);

  std::vector<OwnOp> ops_;
};

}  // namespace metronome
