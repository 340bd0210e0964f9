// The header for programs that run on several ranks, beside executor/metronome.h.
#pragma once

#include "distributed/launch/launch.h"
#include "distributed/ops/all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/exchange.h"
#include "distributed/ops/sync_batch_norm.h"
#include "distributed/ops/weighted.h"
#include "distributed/world/world.h"
