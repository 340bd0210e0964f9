// RMS norm on devices.
#pragma once

#include "ops/kernel/row_norms.h"

namespace metronome::cuda {

struct RmsNormTraits {
  static constexpr bool centered = false;
  static constexpr const char* name = "rms_norm";
  static constexpr const char* grad_name = "rms_norm_grad";
  static constexpr const char* sums_name = "rms_norm_sums";
  static constexpr const char* header = "ops/rms_norm/rms_norm_kernels.h";
};

using RmsNormKernels = NormKernels<RmsNormTraits>;

}  // namespace metronome::cuda
