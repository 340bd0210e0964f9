// Normalisation over groups of channels (Wu and He 2018) and over each channel of each image
// (Ulyanov, Vedaldi, Lempitsky 2016), with PyTorch's names and defaults.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/init.h"
#include "graph/ir/value.h"

namespace metronome {

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  std::optional<Init> weight_init = {};  ///< absent: ones
  std::optional<Init> bias_init = {};    ///< absent: zeros
};

/// x [N, C, ...]: each of `groups` groups of channels of each image is moved and scaled to mean 0
/// and variance 1 (biased, with eps); then times weight [C] plus bias [C] if `affine`.
Layer group_norm(std::int64_t groups, GroupNormOptions options = {});

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;
  std::optional<Init> weight_init = {};  ///< absent: ones
  std::optional<Init> bias_init = {};    ///< absent: zeros
};

/// Moves and scales each channel of each image of x [N, C, spatial...], which has two elements or
/// more, as `group_norm` does a group. It keeps no running statistics: evaluation normalises as
/// training does.
Layer instance_norm(InstanceNormOptions options = {});

}  // namespace metronome
