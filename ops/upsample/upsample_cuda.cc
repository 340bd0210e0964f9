#include "ops/upsample/upsample.h"

#include "ops/bands/bands_cuda.h"
#include "ops/cuda/launch.h"

namespace metronome {

void record(const Upsample& op, const CudaLaunch& l) {
  const Spatial size = spatial_of(l.inputs[0], op.resizing.out.size());
  record_bands(op.resizing.bands(size, l.inputs[0].element), l);
}

void record(const UpsampleGrad& op, const CudaLaunch& l) {
  record_bands(transpose_bands(op.resizing.bands(op.size, l.inputs[0].element)), l);
}

}  // namespace metronome
