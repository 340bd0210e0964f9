#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/norm_plan.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace metronome {

void record(const RmsNorm& op, const CudaLaunch& l) { record_norm<cuda::RmsNormTraits>(op.eps, l); }

std::vector<Candidate> candidates(const RmsNormGrad&, const CudaQuery& q) {
  return norm_grad_candidates<cuda::RmsNormTraits>(q.inputs[1]);
}

void record(const RmsNormGrad&, const CudaLaunch& l) { record_norm_grad<cuda::RmsNormTraits>(l); }

}  // namespace metronome
