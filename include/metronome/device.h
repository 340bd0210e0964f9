// Steps on a GPU.
#pragma once

#include "executor/metronome/device.h"
