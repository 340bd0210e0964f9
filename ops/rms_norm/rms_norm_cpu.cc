#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/row_norms.h"
#include "ops/rms_norm/rms_norm.h"

namespace metronome::METRONOME_ISA {

std::vector<Candidate> candidates(const RmsNorm&, const CpuQuery& q) { return norm_candidates(q); }

CpuKernel bind(const RmsNorm& op, const CpuLaunch& l) { return bind_norm<false>(op.eps, l); }

std::vector<Candidate> candidates(const RmsNormGrad&, const CpuQuery& q) {
  return {candidate_with_sums(q.inputs[1], 1, q.threads)};
}

CpuKernel bind(const RmsNormGrad&, const CpuLaunch& l) { return bind_norm_grad<false>(l); }

}  // namespace metronome::METRONOME_ISA
