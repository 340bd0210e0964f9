#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/row_norms.h"
#include "ops/layer_norm/layer_norm.h"

namespace metronome::METRONOME_ISA {

std::vector<Candidate> candidates(const LayerNorm&, const CpuQuery& q) {
  return norm_candidates(q);
}

CpuKernel bind(const LayerNorm& op, const CpuLaunch& l) { return bind_norm<true>(op.eps, l); }

std::vector<Candidate> candidates(const LayerNormGrad&, const CpuQuery& q) {
  return {candidate_with_sums(q.inputs[1], 2, q.threads)};
}

CpuKernel bind(const LayerNormGrad&, const CpuLaunch& l) { return bind_norm_grad<true>(l); }

}  // namespace metronome::METRONOME_ISA
