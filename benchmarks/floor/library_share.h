// How much of a step is matrix products, at the speed of the library that was chosen for each.
#pragma once

#include "executor/metronome.h"

namespace metronome::benchmarks {

/// Milliseconds that the matrix products of one training step of the declared graph take when
/// nothing runs but them: for every linear layer the product itself, that of its weight's gradient
/// and, where its input depends on a parameter, that of its input's gradient, each with the kernel
/// that compile chooses for its shape.
double library_ms(const Graph& declared, int threads);

}  // namespace metronome::benchmarks
