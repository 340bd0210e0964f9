// Layer norm on devices.
#pragma once

#include "ops/kernel/row_norms.h"

namespace metronome::cuda {

struct LayerNormTraits {
  static constexpr bool centered = true;
  static constexpr const char* name = "layer_norm";
  static constexpr const char* grad_name = "layer_norm_grad";
  static constexpr const char* sums_name = "layer_norm_sums";
  static constexpr const char* header = "ops/layer_norm/layer_norm_kernels.h";
};

using LayerNormKernels = NormKernels<LayerNormTraits>;

}  // namespace metronome::cuda
