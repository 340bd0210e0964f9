// Declares the rules of an op that belong to back ends.
#pragma once

#include <vector>

#include "ops/case.h"

namespace at {
class Tensor;
}

namespace metronome {

class CpuKernel;
struct CpuCandidate;
struct CpuLaunch;
struct CpuQuery;

using Tensors = std::vector<at::Tensor>;

}  // namespace metronome

/// Stands after an op's struct, in its header, and declares what the explicit list `ops/ops.h`
/// requires of it: the CPU kernel (compiled once for each instruction set) and the libtorch calls
/// that are its eager form and its oracle. Those live in `<stem>_cpu.cc` and `<stem>_reference.cc`.
/// `reference` returns the visible outputs.
#define METRONOME_RULES(Op)                                        \
  namespace avx2 {                                                 \
  CpuKernel bind(const Op& op, const CpuLaunch& launch);           \
  }                                                                \
  namespace avx512 {                                               \
  CpuKernel bind(const Op& op, const CpuLaunch& launch);           \
  }                                                                \
  Tensors reference(const Op& op, const Tensors& inputs)

/// Also, for an op that more than one kernel can run or that needs scratch: the candidates, the
/// fixed rule's choice first.
#define METRONOME_CANDIDATES(Op)                                                 \
  namespace avx2 {                                                               \
  std::vector<CpuCandidate> candidates(const Op& op, const CpuQuery& query);     \
  }                                                                              \
  namespace avx512 {                                                             \
  std::vector<CpuCandidate> candidates(const Op& op, const CpuQuery& query);     \
  }                                                                              \
  static_assert(true)

/// A composite has no kernel, only the libtorch calls of its eager form.
#define METRONOME_COMPOSITE(Op) Tensors reference(const Op& op, const Tensors& inputs)
