// The smallest program that still fails.
#pragma once

#include <functional>

#include "tests/random/program.h"

namespace metronome::random_programs {

/// Takes statements out, puts bodies in place of their verbs and numbers toward zero, as long as
/// `fails` holds: afterwards no single such change keeps it. `fails(program)` must hold. `tries`
/// bounds how many programs are asked about.
Program shrink(Program program, const std::function<bool(const Program&)>& fails, int tries = 3000);

}  // namespace metronome::random_programs
