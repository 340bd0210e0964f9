// Declares the rules of an op that belong to back ends.
#pragma once

#include <string>
#include <vector>

#include "graph/rules/all.h"
#include "ops/rules/case.h"

namespace at {
class Tensor;
}

namespace metronome {

class CpuKernel;
struct Candidate;
struct CpuLaunch;
struct CpuQuery;
struct CudaLaunch;
struct CudaQuery;
struct MapSource;

using Tensors = std::vector<at::Tensor>;

}  // namespace metronome

/// Stands after an op's struct, in its header, and declares what the explicit list `ops/ops.h`
/// requires of it: the CPU kernel (compiled once for each instruction set), its CUDA form, and the
/// libtorch calls that are its eager form and its oracle. Those live in `<stem>_cpu.cc`,
/// `<stem>_cuda.cc` (with the bodies of its kernels in `<stem>_kernels.h`) and
/// `<stem>_reference.cc`. `reference` returns the visible outputs.
#define METRONOME_RULES(Op)                              \
  namespace avx2 {                                       \
  CpuKernel bind(const Op& op, const CpuLaunch& launch); \
  }                                                      \
  namespace avx512 {                                     \
  CpuKernel bind(const Op& op, const CpuLaunch& launch); \
  }                                                      \
  namespace portable {                                   \
  CpuKernel bind(const Op& op, const CpuLaunch& launch); \
  }                                                      \
  void record(const Op& op, const CudaLaunch& launch);   \
  Tensors reference(const Op& op, const Tensors& inputs)

/// Also, for an op that more than one CPU kernel can run or that needs scratch: the candidates, the
/// fixed rule's choice first.
#define METRONOME_CANDIDATES(Op)                                          \
  namespace avx2 {                                                        \
  std::vector<Candidate> candidates(const Op& op, const CpuQuery& query); \
  }                                                                       \
  namespace avx512 {                                                      \
  std::vector<Candidate> candidates(const Op& op, const CpuQuery& query); \
  }                                                                       \
  namespace portable {                                                    \
  std::vector<Candidate> candidates(const Op& op, const CpuQuery& query); \
  }                                                                       \
  static_assert(true)

/// Beside them, for an op whose CPU candidates may take long to time: `CpuRules::sample`, one
/// function for all processors.
#define METRONOME_SAMPLE(Op) Types sample(const Op& op, std::span<const Type> inputs, double share)

/// The candidates of an op's CUDA form.
#define METRONOME_CUDA_CANDIDATES(Op) \
  std::vector<Candidate> candidates(const Op& op, const CudaQuery& query)

/// Also, for an op whose result has one element for each element of its operands, broadcast: how
/// that element is computed, so that fused groups can be made of it.
#define METRONOME_MAP(Op) std::string map_source(const Op& op, const MapSource& source)

/// A composite has no kernel, only the libtorch calls of its eager form.
#define METRONOME_COMPOSITE(Op) Tensors reference(const Op& op, const Tensors& inputs)
