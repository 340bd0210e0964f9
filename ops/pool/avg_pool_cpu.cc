#include "ops/pool/avg_pool.h"

#include "ops/bands/bands_cpu.h"
#include "ops/cpu/launch.h"

namespace metronome::METRONOME_ISA {

std::vector<Candidate> candidates(const AvgPool&, const CpuQuery& q) { return bands_candidates(q); }

CpuKernel bind(const AvgPool& op, const CpuLaunch& l) {
  const std::size_t n = op.averaging.windows.kernel.size();
  return bind_bands(op.averaging.bands(spatial_of(l.inputs[0], n)), l);
}

std::vector<Candidate> candidates(const AvgPoolGrad&, const CpuQuery& q) {
  return bands_candidates(q);
}

CpuKernel bind(const AvgPoolGrad& op, const CpuLaunch& l) {
  return bind_bands(transpose_bands(op.averaging.bands(op.size)), l);
}

std::vector<Candidate> candidates(const AdaptiveAvgPool&, const CpuQuery& q) {
  return bands_candidates(q);
}

CpuKernel bind(const AdaptiveAvgPool& op, const CpuLaunch& l) {
  return bind_bands(adaptive_bands(spatial_of(l.inputs[0], op.out.size()), op.out), l);
}

std::vector<Candidate> candidates(const AdaptiveAvgPoolGrad&, const CpuQuery& q) {
  return bands_candidates(q);
}

CpuKernel bind(const AdaptiveAvgPoolGrad& op, const CpuLaunch& l) {
  const Spatial out = spatial_of(l.inputs[0], op.size.size());
  return bind_bands(transpose_bands(adaptive_bands(op.size, out)), l);
}

}  // namespace metronome::METRONOME_ISA
