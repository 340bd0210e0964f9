// For programs that look below a device's step: the driver that runs its commands, to record them
// or to play them elsewhere (`Target::driver`). A program that only asks for cuda_graph() needs
// executor/metronome.h alone.
#pragma once

#include "executor/cuda/driver/driver.h"
#include "executor/metronome.h"
