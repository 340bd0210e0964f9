// Ops and layers of one's own.
#pragma once

#include "executor/metronome/op.h"
