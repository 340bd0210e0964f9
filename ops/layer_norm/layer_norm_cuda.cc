#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/norm_plan.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace metronome {

void record(const LayerNorm& op, const CudaLaunch& l) {
  record_norm<cuda::LayerNormTraits>(op.eps, l);
}

std::vector<Candidate> candidates(const LayerNormGrad&, const CudaQuery& q) {
  return norm_grad_candidates<cuda::LayerNormTraits>(q.inputs[1]);
}

void record(const LayerNormGrad&, const CudaLaunch& l) {
  record_norm_grad<cuda::LayerNormTraits>(l);
}

}  // namespace metronome
