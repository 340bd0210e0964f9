// Medians and spreads of repeated measurements.
#pragma once

#include "models/commands/statistics.h"

namespace metronome::benchmarks {

using statistics::interleave;
using statistics::milliseconds;
using statistics::Rounds;
using statistics::Samples;
using statistics::Side;

}  // namespace metronome::benchmarks
