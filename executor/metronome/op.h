// For authors of layers and ops: nodes of ops of one's own, paths and lines, what an op's rules are
// written with, and kernels for a CPU and for devices.
#pragma once

#include "executor/metronome.h"
#include "graph/emit/scope.h"   // apply: a node of an op of one's own; paths, parameters, mistakes
#include "graph/ir/op_model.h"  // make_op, and the rules that an op may have
#include "ops/own/own_ops.h"    // own_ops: ops of one's own with kernels
#include "ops/rules/require.h"  // what an op's rule of types asks for
