// Several ranks, which train together.
#pragma once

#include "distributed/distributed.h"
