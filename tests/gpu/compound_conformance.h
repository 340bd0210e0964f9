// Nodes made of several ops, on a device: they give what their members give one by one.
#pragma once

#include "tests/gpu/device_conformance.h"

namespace metronome {

/// "batch": updates of parameters of odd sizes and both floating types, by every optimizer, as one
/// node. Bit for bit.
OpConformance check_batches(DevicePools pools);

/// "group": each reduction's cases, with maps before what it walks over and after what it makes of
/// it, as one kernel. Bit for bit.
OpConformance check_groups(DevicePools pools, const CaseLimits& limits);

}  // namespace metronome
