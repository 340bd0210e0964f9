// What was compiled as a library of its own.
#pragma once

#include "executor/metronome/export.h"
