// The numbers of random ops and initial values. The cipher stands in ops/kernel/philox.h, which
// devices compile too.
#pragma once

#include "ops/kernel/philox.h"

namespace metronome {

using cuda::philox;
using cuda::philox_key;
using cuda::PhiloxKey;
using cuda::PhiloxWords;
using cuda::uniform;

}  // namespace metronome
