// Rules of fused groups (graph/compounds/group.h) that belong to back ends.
#pragma once

#include "graph/compounds/group.h"
#include "ops/rules/rules.h"

namespace metronome {

/// True for ops that a CPU computes in groups: maps that have a row function (ops/cpu/rows.h),
/// constants, slices and concats.
bool joins_cpu_group(const Op& op);

namespace avx2 {
CpuKernel bind(const Group& group, const CpuLaunch& launch);
}
namespace avx512 {
CpuKernel bind(const Group& group, const CpuLaunch& launch);
}
namespace portable {
CpuKernel bind(const Group& group, const CpuLaunch& launch);
}
METRONOME_CANDIDATES(Group);

/// One kernel: a source of its own where all members are maps; beside a reduction that one's
/// kernel, with functors in the place of the operands and the result that it walks over
/// (ops/kernel/reduce.h), and what else the reduction launches.
void record(const Group& group, const CudaLaunch& launch);
METRONOME_CUDA_CANDIDATES(Group);
/// An op of `MapOps` (ops/ops.h) on its own: a group of one.
void record_map(const Op& op, const CudaLaunch& launch);

/// The members' libtorch calls in turn. Throws InternalError where an output of the group is one
/// that a member saves for its gradient: libtorch does not give those.
Tensors reference(const Group& group, const Tensors& inputs);

}  // namespace metronome
