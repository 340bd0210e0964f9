// Models that PyTorch exported.
#pragma once

#include "executor/metronome/import.h"
