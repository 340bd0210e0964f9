// Declare a model, compile it, replay its steps: all that a program for a CPU includes.
#pragma once

#include "executor/metronome.h"
