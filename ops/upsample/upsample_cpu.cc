#include "ops/upsample/upsample.h"

#include "ops/bands/bands_cpu.h"
#include "ops/cpu/launch.h"

namespace metronome::METRONOME_ISA {

std::vector<Candidate> candidates(const Upsample&, const CpuQuery& q) {
  return bands_candidates(q);
}

CpuKernel bind(const Upsample& op, const CpuLaunch& l) {
  const Spatial size = spatial_of(l.inputs[0], op.resizing.out.size());
  return bind_bands(op.resizing.bands(size, l.inputs[0].element), l);
}

std::vector<Candidate> candidates(const UpsampleGrad&, const CpuQuery& q) {
  return bands_candidates(q);
}

CpuKernel bind(const UpsampleGrad& op, const CpuLaunch& l) {
  return bind_bands(transpose_bands(op.resizing.bands(op.size, l.inputs[0].element)), l);
}

}  // namespace metronome::METRONOME_ISA
